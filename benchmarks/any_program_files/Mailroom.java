// limit: thread | stamper
// Letters through an ArrayBlockingQueue to one stamping thread.
import java.util.concurrent.ArrayBlockingQueue;

public class Mailroom {
    static long stamp(long letter) {
        for (int i = 0; i < 300_000; i++) letter = letter * 6364136223846793005L + 1442695040888963407L;
        return letter;
    }

    public static void main(String[] args) throws Exception {
        long until = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        var letters = new ArrayBlockingQueue<Long>(16);
        var stamper = new Thread(() -> {
            long sum = 0;
            try {
                for (long l; (l = letters.take()) >= 0; ) sum ^= stamp(l);
            } catch (InterruptedException e) {
                return;
            }
            System.out.println(sum);
        }, "stamper");
        stamper.start();
        for (long n = 0; System.nanoTime() < until; n++) letters.put(n);
        letters.put(-1L);
        stamper.join();
    }
}
