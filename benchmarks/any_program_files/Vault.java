// limit: lock | Vault|deposit|monitor|lock|synchronized
import java.util.*;

public class Vault {
    private final Map<Integer, Long> coins = new HashMap<>();
    synchronized void deposit(int who) {
        long sum = 0;
        for (int i = 0; i < 60_000; i++) sum += (sum ^ i) % 7;
        coins.merge(who, sum, Long::sum);
    }
    public static void main(String[] args) throws Exception {
        Vault vault = new Vault(); long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        List<Thread> clients = new ArrayList<>();
        for (int c = 0; c < 5; c++) { final int me = c; Thread t = new Thread(() -> { while (System.nanoTime() < end) vault.deposit(me); }); clients.add(t); t.start(); }
        for (Thread t : clients) t.join();
        System.out.println(vault.coins);
    }
}
