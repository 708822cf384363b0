// limit: lock | monitor
// Four workers parse little and record much, in one synchronized method; the threads of the machine itself wait for nothing.

import java.util.HashMap;
import java.util.Map;

public class SharedStats {
    static final Map<String, long[]> STATS = new HashMap<>();
    static long recorded;

    static synchronized void record(String key, long value) {
        long hash = value;
        for (int i = 0; i < 200_000; i++) hash = hash * 31 + i;
        STATS.computeIfAbsent(key, unused -> new long[1])[0] += hash;
        recorded++;
    }

    static long parse(long x) {
        for (int i = 0; i < 20_000; i++) x = x * 6364136223846793005L + 1;
        return x;
    }

    public static void main(String[] arguments) throws Exception {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 5;
        long until = System.nanoTime() + (long) (seconds * 1e9);
        Thread[] workers = new Thread[4];
        for (int number = 0; number < workers.length; number++) {
            long seed = number;
            workers[number] = new Thread(() -> {
                long x = seed;
                while (System.nanoTime() < until) {
                    x = parse(x);
                    record("k" + (x & 7), x);
                }
            }, "worker-" + number);
            workers[number].start();
        }
        for (Thread worker : workers) worker.join();
        System.out.println(recorded);
    }
}
