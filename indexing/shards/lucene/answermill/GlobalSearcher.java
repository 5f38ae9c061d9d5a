package answermill;

import java.util.Map;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.CollectionStatistics;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermStatistics;

/** Searches one shard with the statistics of all shards, so that a score is, bit for bit, that of one big index. */
final class GlobalSearcher extends IndexSearcher {
  private final long documents;
  private final long tokens;
  private final Map<String, Long> frequencies;

  /** frequencies: word to the number of documents of all shards that have it. */
  GlobalSearcher(IndexReader shard, long documents, long tokens, Map<String, Long> frequencies) {
    super(shard);
    this.documents = documents;
    this.tokens = tokens;
    this.frequencies = frequencies;
  }

  @Override
  public CollectionStatistics collectionStatistics(String field) {
    return new CollectionStatistics(field, documents, documents, tokens, documents);
  }

  @Override
  public TermStatistics termStatistics(Term term, int docFreq, long totalTermFreq) {
    long frequency = frequencies.get(term.text());
    return new TermStatistics(term.bytes(), frequency, Math.max(frequency, totalTermFreq));
  }
}
