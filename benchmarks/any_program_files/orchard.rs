// limit: thread | press
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
#[inline(never)]
fn press(apple: u64) -> u64 { let mut j = apple; for i in 0..250_000u64 { j = j.rotate_left(5) ^ i.wrapping_mul(apple | 1); } j }
#[inline(never)]
fn pick(n: u64) -> u64 { let mut a = n; for i in 0..15_000u64 { a = a.wrapping_mul(6364136223846793005).wrapping_add(i); } a }
fn main() {
    let secs: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (tx, rx) = sync_channel::<u64>(8);
    let presser = std::thread::spawn(move || { let mut juice = 0u64; let mut n = 0; for a in rx { juice ^= press(a); n += 1; } (n, juice) });
    let end = Instant::now() + Duration::from_secs_f64(secs);
    let mut n = 0; while Instant::now() < end { n = pick(n); tx.send(n).unwrap(); }
    drop(tx); println!("{:?}", presser.join().unwrap());
}
