package answermill;

import java.util.HashMap;
import java.util.Map;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.CollectionStatistics;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermStatistics;
import org.apache.lucene.search.TopDocs;

/** Searches one shard with the statistics of all shards, so that a score is, bit for bit, that of one big index. */
public final class GlobalSearcher extends IndexSearcher {
  private final long documents;
  private final long tokens;
  private final Map<String, Long> frequencies = new HashMap<>();

  public GlobalSearcher(IndexReader shard, long documents, long tokens) {
    super(shard);
    this.documents = documents;
    this.tokens = tokens;
  }

  /** In how many documents of all shards a term occurs. */
  public void put(String term, long frequency) {
    frequencies.put(term, frequency);
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

  /** Document numbers of the hits, best first, as one array: a call for each hit would take longer than the search. */
  public static int[] rows(TopDocs top) {
    int[] rows = new int[top.scoreDocs.length];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = top.scoreDocs[i].doc;
    }
    return rows;
  }

  /** Scores of the hits, best first. */
  public static float[] scores(TopDocs top) {
    float[] scores = new float[top.scoreDocs.length];
    for (int i = 0; i < scores.length; i++) {
      scores[i] = top.scoreDocs[i].score;
    }
    return scores;
  }
}
