// limit: thread | decorate|decorator|Bakery
import java.security.MessageDigest;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

public class Bakery {
    record Cake(int number, byte[] icing) {}

    static final Cake CLOSED = new Cake(-1, null);
    static final BlockingQueue<Cake> cooled = new ArrayBlockingQueue<>(40);
    static final BlockingQueue<Cake> finished = new ArrayBlockingQueue<>(40);

    static byte[] decorate(byte[] icing) throws Exception {
        MessageDigest swirl = MessageDigest.getInstance("SHA-256");
        for (int layer = 0; layer < 1000; layer++) icing = swirl.digest(icing);
        return icing;
    }

    static void decorator() {
        try {
            for (Cake c; (c = cooled.take()) != CLOSED; ) finished.put(new Cake(c.number(), decorate(c.icing())));
            finished.put(CLOSED);
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    static void counter() {
        int sold = 0, fancy = 0;
        try {
            for (Cake c; (c = finished.take()) != CLOSED; sold++) for (byte b : c.icing()) fancy += b & 1;
        } catch (InterruptedException e) {
            return;
        }
        System.out.println(sold + " cakes, " + fancy + " pearls");
    }

    public static void main(String[] args) throws Exception {
        double seconds = args.length > 0 ? Double.parseDouble(args[args.length - 1]) : 6;
        Thread d = new Thread(Bakery::decorator, "decorator"), c = new Thread(Bakery::counter, "counter");
        d.start();
        c.start();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        for (int n = 0; System.nanoTime() < end; n++) {
            byte[] icing = new byte[512];
            for (int i = 0; i < icing.length; i++) icing[i] = (byte) (n * 31 + i * i);
            cooled.put(new Cake(n, icing));
        }
        cooled.put(CLOSED);
        d.join();
        c.join();
    }
}
