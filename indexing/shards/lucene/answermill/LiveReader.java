package answermill;

import java.io.IOException;
import java.util.List;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.FilterDirectoryReader;
import org.apache.lucene.index.FilterLeafReader;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.util.Bits;
import org.apache.lucene.util.FixedBitSet;

/** A shard in which a search does not find the documents that are gone; its statistics still count them. */
public final class LiveReader extends FilterDirectoryReader {
  private final int[] gone;

  /** gone: numbers of the documents that are gone, which ascend. */
  public LiveReader(DirectoryReader shard, int[] gone) throws IOException {
    super(shard, new Wrapper(gone));
    this.gone = gone;
  }

  @Override
  protected DirectoryReader doWrapDirectoryReader(DirectoryReader shard) throws IOException {
    return new LiveReader(shard, gone);
  }

  @Override
  public CacheHelper getReaderCacheHelper() {
    return null;
  }

  private static final class Wrapper extends SubReaderWrapper {
    private final int[] gone;

    Wrapper(int[] gone) {
      this.gone = gone;
    }

    @Override
    protected LeafReader[] wrap(List<? extends LeafReader> segments) {
      LeafReader[] wrapped = new LeafReader[segments.size()];
      int first = 0; // number of the segment's first document
      for (int i = 0; i < wrapped.length; i++) {
        LeafReader segment = segments.get(i);
        wrapped[i] = new Segment(segment, live(first, segment.maxDoc()));
        first += segment.maxDoc();
      }
      return wrapped;
    }

    @Override
    public LeafReader wrap(LeafReader segment) {
      throw new UnsupportedOperationException("a segment alone does not know its first document");
    }

    private FixedBitSet live(int first, int documents) {
      FixedBitSet live = new FixedBitSet(documents);
      live.set(0, documents);
      for (int document : gone) {
        if (document >= first && document < first + documents) {
          live.clear(document - first);
        }
      }
      return live;
    }
  }

  private static final class Segment extends FilterLeafReader {
    private final FixedBitSet live;

    Segment(LeafReader segment, FixedBitSet live) {
      super(segment);
      this.live = live;
    }

    @Override
    public Bits getLiveDocs() {
      return live;
    }

    @Override
    public int numDocs() {
      return live.cardinality();
    }

    @Override
    public CacheHelper getCoreCacheHelper() {
      return null;
    }

    @Override
    public CacheHelper getReaderCacheHelper() {
      return null;
    }
  }
}
