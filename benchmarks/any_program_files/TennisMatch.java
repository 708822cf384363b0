// limit: silent |
import java.util.concurrent.SynchronousQueue;
import java.util.zip.CRC32;

public class TennisMatch {
    static final SynchronousQueue<long[]> overNetEast = new SynchronousQueue<>();
    static final SynchronousQueue<long[]> overNetWest = new SynchronousQueue<>();
    static volatile boolean over = false;

    static long stroke(long[] ball, byte[] court) {
        CRC32 spin = new CRC32();
        for (int i = 0; i < 12; i++) {
            court[i * 97 % court.length] ^= (byte) ball[0];
            spin.update(court);
        }
        for (int i = 0; i < court.length; i++) court[i] += (byte) (spin.getValue() >> (i & 7));
        return spin.getValue();
    }

    static void play(SynchronousQueue<long[]> own, SynchronousQueue<long[]> other, int rally) {
        byte[] court = new byte[40000];
        try {
            while (!over) {
                long[] ball = own.take();
                ball[0] ^= stroke(ball, court);
                ball[1] += rally;
                other.put(ball);
            }
        } catch (InterruptedException e) {
            return;
        }
    }

    static void east() {
        play(overNetEast, overNetWest, 0);
    }

    static void west() {
        play(overNetWest, overNetEast, 1);
    }

    public static void main(String[] args) throws Exception {
        double seconds = args.length > 0 ? Double.parseDouble(args[args.length - 1]) : 6;
        Thread e = new Thread(TennisMatch::east, "east"), w = new Thread(TennisMatch::west, "west");
        e.start();
        w.start();
        long[] ball = {1, 0};
        overNetEast.put(ball);
        Thread.sleep((long) (seconds * 1000));
        over = true;
        e.interrupt();
        w.interrupt();
        e.join();
        w.join();
        System.out.println(ball[1] + " rallies");
    }
}
