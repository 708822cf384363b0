// limit: lock | Ledger|post|lock|mutex|Mutex|ledger
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
struct Ledger { lines: Vec<u64> }
impl Ledger { #[inline(never)] fn post(&mut self, who: u64) { for l in self.lines.iter_mut() { *l = l.wrapping_mul(31).wrapping_add(who); } } }
fn main() {
    let secs: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let book = Arc::new(Mutex::new(Ledger { lines: vec![1; 200_000] }));
    let end = Instant::now() + Duration::from_secs_f64(secs);
    let hands: Vec<_> = (0..4u64).map(|me| { let book = book.clone(); std::thread::spawn(move || { let mut n = 0u64; while Instant::now() < end { book.lock().unwrap().post(me); n += 1; } n }) }).collect();
    println!("{:?}", hands.into_iter().map(|h| h.join().unwrap()).collect::<Vec<_>>());
}
