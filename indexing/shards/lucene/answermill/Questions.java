package answermill;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;

/**
 * A batch of questions as bags of words: analysed once, and searched in a shard by one call, since a call from Python
 * takes longer than what Lucene does for a word or a hit.
 */
public final class Questions {
  private static final String CONTENTS = "contents"; // title and text
  private static final String TITLE = "title";
  private static final int SLACK = 32; // hits fetched beyond the depth, to see whether the last one is tied with more

  private final List<Term> terms;
  private final List<Query> queries = new ArrayList<>();

  /** titleWeight: times the score of the titles alone, which is added to that of title and text; 0 leaves it out. */
  public Questions(Analyzer analyzer, String[] texts, float titleWeight) throws IOException {
    IndexSearcher.setMaxClauseCount(Integer.MAX_VALUE); // a question may be longer than 1,024 words
    Map<Term, Query> known = new LinkedHashMap<>();
    for (String text : texts) {
      BooleanQuery.Builder builder = new BooleanQuery.Builder();
      counted(analyzer, text).forEach((word, count) -> {
        add(builder, known, new Term(CONTENTS, word), count);
        if (titleWeight > 0) {
          add(builder, known, new Term(TITLE, word), titleWeight * count);
        }
      });
      queries.add(builder.build());
    }
    terms = List.copyOf(known.keySet());
  }

  /** Questions as weighted words: question number i has the next sizes[i] of the words. */
  public Questions(String[] words, float[] weights, int[] sizes) {
    IndexSearcher.setMaxClauseCount(Integer.MAX_VALUE);
    Map<Term, Query> known = new LinkedHashMap<>();
    int next = 0;
    for (int size : sizes) {
      BooleanQuery.Builder builder = new BooleanQuery.Builder();
      for (int end = next + size; next < end; next++) {
        add(builder, known, new Term(CONTENTS, words[next]), weights[next]);
      }
      queries.add(builder.build());
    }
    terms = List.copyOf(known.keySet());
  }

  /** The words of each text, a text to a line: each different word, a tab, how often it is there, and a tab. */
  public static String counts(Analyzer analyzer, String[] texts) throws IOException {
    StringBuilder lines = new StringBuilder();
    for (String text : texts) {
      counted(analyzer, text).forEach((word, count) -> lines.append(word).append('\t').append(count).append('\t'));
      lines.append('\n');
    }
    return lines.toString();
  }

  private static void add(BooleanQuery.Builder builder, Map<Term, Query> known, Term term, float weight) {
    Query query = known.computeIfAbsent(term, TermQuery::new);
    builder.add(weight == 1 ? query : new BoostQuery(query, weight), BooleanClause.Occur.SHOULD);
  }

  /** Each word of a text, and how often it is there. */
  private static Map<String, Integer> counted(Analyzer analyzer, String text) throws IOException {
    Map<String, Integer> counts = new LinkedHashMap<>();
    try (TokenStream stream = analyzer.tokenStream(CONTENTS, text)) {
      CharTermAttribute word = stream.addAttribute(CharTermAttribute.class);
      stream.reset();
      while (stream.incrementToken()) {
        if (word.length() > 0) {
          counts.merge(word.toString(), 1, Integer::sum);
        }
      }
      stream.end();
    }
    return counts;
  }

  /** All words of the questions, each once, one to a line; after a tab those that are looked for in titles. */
  public String words() {
    return terms.stream()
        .map(term -> term.field().equals(TITLE) ? "\t" + term.text() : term.text())
        .collect(Collectors.joining("\n"));
  }

  /** In how many documents of a shard each of the words is. */
  public int[] frequencies(IndexReader shard) throws IOException {
    int[] frequencies = new int[terms.size()];
    for (int i = 0; i < frequencies.length; i++) {
      frequencies[i] = shard.docFreq(terms.get(i));
    }
    return frequencies;
  }

  /**
   * The best hits of each question in a shard, and all that tie with the last of them, as little-endian numbers: first
   * how many there are of each question (int32), then the documents of all (int32), then the scores of all (float64).
   *
   * <p>Scores are rounded to a number of decimals, and ordered from the highest, then by document. sizes: documents and
   * words of all shards, then those of titles. frequencies: number of documents of all shards that have each of the
   * words; null to score with what the shard alone has.
   */
  public byte[] search(
      IndexReader shard, long[] sizes, long[] frequencies, float k1, float b, int depth, int decimals)
      throws IOException {
    IndexSearcher searcher =
        frequencies == null
            ? new IndexSearcher(shard)
            : new GlobalSearcher(shard, byField(sizes), byTerm(frequencies));
    searcher.setQueryCache(null);
    searcher.setSimilarity(new BM25Similarity(k1, b));

    double scale = Math.pow(10, decimals);
    List<Hit[]> found = new ArrayList<>();
    int total = 0;
    for (Query query : queries) {
      Hit[] hits = best(searcher, query, depth, scale);
      found.add(hits);
      total += hits.length;
    }

    ByteBuffer bytes = ByteBuffer.allocate(4 * found.size() + 12 * total).order(ByteOrder.LITTLE_ENDIAN);
    found.forEach(hits -> bytes.putInt(hits.length));
    found.forEach(hits -> { for (Hit hit : hits) bytes.putInt(hit.document); });
    found.forEach(hits -> { for (Hit hit : hits) bytes.putDouble(hit.score); });
    return bytes.array();
  }

  private static Map<String, long[]> byField(long[] sizes) {
    return Map.of(CONTENTS, Arrays.copyOfRange(sizes, 0, 2), TITLE, Arrays.copyOfRange(sizes, 2, 4));
  }

  private Map<Term, Long> byTerm(long[] frequencies) {
    Map<Term, Long> map = new HashMap<>();
    for (int i = 0; i < frequencies.length; i++) {
      map.put(terms.get(i), frequencies[i]);
    }
    return map;
  }

  private record Hit(int document, double score) implements Comparable<Hit> {
    @Override
    public int compareTo(Hit other) {
      int byScore = Double.compare(other.score, score);
      return byScore != 0 ? byScore : Integer.compare(document, other.document);
    }
  }

  private static Hit[] best(IndexSearcher searcher, Query query, int depth, double scale) throws IOException {
    int all = searcher.getIndexReader().maxDoc();
    if (all == 0) {
      return new Hit[0];
    }

    for (long fetch = (long) depth + SLACK; ; fetch *= 2) {
      int most = (int) Math.min(fetch, all);
      ScoreDoc[] docs = searcher.search(query, most).scoreDocs;
      Hit[] hits = new Hit[docs.length];
      for (int i = 0; i < docs.length; i++) {
        hits[i] = new Hit(docs[i].doc, Math.rint(docs[i].score * scale) / scale);
      }

      boolean whole = hits.length < most || most == all; // Lucene has no more of them
      if (whole || hits[hits.length - 1].score < hits[depth - 1].score) {
        return untilTies(hits, depth);
      }
    }
  }

  /** The best of some hits, and those that tie with the last of them. */
  private static Hit[] untilTies(Hit[] hits, int depth) {
    Arrays.sort(hits);
    int length = Math.min(depth, hits.length);
    while (length > 0 && length < hits.length && hits[length].score == hits[length - 1].score) {
      length++;
    }
    return Arrays.copyOf(hits, length);
  }
}
