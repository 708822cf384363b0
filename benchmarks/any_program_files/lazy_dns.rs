// limit: timer | resolve|sleep|lazy_dns|main
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};
fn resolve(name: u64, reply: Sender<u64>) { std::thread::sleep(Duration::from_millis(8)); reply.send(name * 3).unwrap(); }
fn main() {
    let secs: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (ask, names) = channel::<(u64, Sender<u64>)>();
    std::thread::Builder::new().name("resolver".into()).spawn(move || { for (n, r) in names { resolve(n, r); } }).unwrap();
    let end = Instant::now() + Duration::from_secs_f64(secs); let mut n = 0u64;
    while Instant::now() < end { let (tx, rx) = channel(); ask.send((n, tx)).unwrap(); n += rx.recv().unwrap() % 2 + 1; }
    println!("{n}");
}
