// limit: lock | teller|Bank|monitor|lock
// Three tellers synchronize on one account book while they recompute the sum of it.
public class Bank {
    static final long[] book = new long[4000];
    static long total;

    static synchronized void deposit(int at, long amount) {
        book[at] += amount;
        long sum = 0;
        for (int k = 0; k < 30; k++) for (long v : book) sum += v ^ k;
        total = sum;
    }

    public static void main(String[] args) throws Exception {
        long until = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        Thread[] tellers = new Thread[3];
        for (int t = 0; t < 3; t++) {
            int seed = t;
            tellers[t] = new Thread(() -> {
                int at = seed;
                while (System.nanoTime() < until) {
                    for (int i = 0; i < 2000; i++) at = (at * 1103515245 + 12345) & 0x7fffffff;
                    deposit(at % 4000, 1);
                }
            }, "teller-" + t);
            tellers[t].start();
        }
        for (Thread t : tellers) t.join();
        System.out.println(total);
    }
}
