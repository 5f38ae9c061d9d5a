package answermill;

import java.util.Map;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.CollectionStatistics;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermStatistics;

/** Searches one shard with the statistics of all shards, so that a score is, bit for bit, that of one big index. */
final class GlobalSearcher extends IndexSearcher {
  private final Map<String, long[]> sizes;
  private final Map<Term, Long> frequencies;

  /**
   * sizes: field to its documents, of all shards, that have a word, and to its words. frequencies: word to the number
   * of documents of all shards that have it.
   */
  GlobalSearcher(IndexReader shard, Map<String, long[]> sizes, Map<Term, Long> frequencies) {
    super(shard);
    this.sizes = sizes;
    this.frequencies = frequencies;
  }

  @Override
  public CollectionStatistics collectionStatistics(String field) {
    // Where every document that has a word is gone, any numbers do.
    long documents = Math.max(1, sizes.get(field)[0]);
    long tokens = Math.max(documents, sizes.get(field)[1]);
    return new CollectionStatistics(field, documents, documents, tokens, documents);
  }

  @Override
  public TermStatistics termStatistics(Term term, int docFreq, long totalTermFreq) {
    long frequency = Math.max(1, frequencies.get(term));
    return new TermStatistics(term.bytes(), frequency, Math.max(frequency, totalTermFreq));
  }
}
