// limit: thread | brew|barista|Kiosk
import java.util.concurrent.ArrayBlockingQueue;

public class Kiosk {
    static long brew(int order) { long x = order; for (int i = 0; i < 400_000; i++) x = x * 31 + (x >>> 7); return x; }
    static long grind(int order) { long x = order; for (int i = 0; i < 20_000; i++) x = x * 17 + i; return x; }
    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        ArrayBlockingQueue<Integer> orders = new ArrayBlockingQueue<>(10);
        Thread barista = new Thread(() -> {
            long cups = 0, taste = 0;
            try { for (int o = orders.take(); o >= 0; o = orders.take()) { taste ^= brew(o); cups++; } } catch (InterruptedException e) { }
            System.out.println(cups + " cups " + taste);
        }, "barista");
        barista.start();
        long n = 0;
        while (System.nanoTime() < end) { n ^= grind((int) n); orders.put((int) (n & 0xffff)); }
        orders.put(-1); barista.join();
    }
}
