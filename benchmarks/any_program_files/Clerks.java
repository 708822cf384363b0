// limit: lock | (?i)postEntry|Daybook|monitor|synchronized|futex|mutex|clerk
public class Clerks {
    static final class Daybook {
        private final long[] columns = new long[1024];
        private long entries = 0;

        synchronized void postEntry(long amount) {
            for (int round = 0; round < 160; round++)
                for (int k = 0; k < columns.length; k++) {
                    amount = amount * 6364136223846793005L + columns[k];
                    columns[k] = amount >>> 40;
                }
            entries++;
        }

        synchronized long entries() {
            return entries;
        }
    }

    static volatile boolean closing = false;

    static long reckon(long amount) {
        for (int k = 0; k < 9_000; k++) amount = amount * 2862933555777941757L + k;
        return amount;
    }

    public static void main(String[] args) throws InterruptedException {
        double seconds = args.length > 0 ? Double.parseDouble(args[0]) : 5;
        Daybook book = new Daybook();
        Thread[] clerks = new Thread[4];
        for (int k = 0; k < clerks.length; k++) {
            long first = k + 1;
            clerks[k] = new Thread(() -> {
                for (long amount = first; !closing; ) book.postEntry(amount = reckon(amount));
            }, "clerk-" + k);
            clerks[k].start();
        }
        Thread.sleep((long) (seconds * 1000));
        closing = true;
        for (Thread clerk : clerks) clerk.join();
        System.out.println(book.entries() + " entries");
    }
}
