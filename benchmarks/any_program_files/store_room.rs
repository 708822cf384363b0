// limit: lock | picker|recount|stock|Mutex|lock|futex
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

struct Stock {
    shelf: BTreeMap<u32, u32>,
    moves: u64,
}

#[inline(never)]
fn recount(stock: &mut Stock, from: u32) -> u64 {
    let mut sum = 0;
    for k in 0..1500u32 {
        let item = from.wrapping_mul(2654435761).wrapping_add(k * 40503) % 20000;
        let have = stock.shelf.entry(item).or_insert(50);
        *have = if *have == 0 { 50 } else { *have - 1 };
        sum += u64::from(*have);
    }
    stock.moves += 1;
    sum
}

fn label(order: u32) -> String {
    let mut text = String::new();
    for k in 0..40 {
        text.push_str(&format!("{:05}-", (order * 31 + k) % 99991));
    }
    text
}

fn main() {
    let seconds: f64 = std::env::args().last().and_then(|a| a.parse().ok()).unwrap_or(6.0);
    let stock = Arc::new(Mutex::new(Stock { shelf: BTreeMap::new(), moves: 0 }));
    let home_time = Arc::new(AtomicBool::new(false));
    let letters = Arc::new(AtomicU64::new(0));
    let pickers: Vec<_> = (0..4u32)
        .map(|id| {
            let (stock, home_time, letters) = (stock.clone(), home_time.clone(), letters.clone());
            thread::Builder::new()
                .name(format!("picker-{id}"))
                .spawn(move || {
                    let mut order = id * 1_000_000;
                    while !home_time.load(Ordering::Relaxed) {
                        letters.fetch_add(label(order).len() as u64, Ordering::Relaxed);
                        let mut room = stock.lock().unwrap();
                        recount(&mut room, order);
                        drop(room);
                        order += 1;
                    }
                })
                .unwrap()
        })
        .collect();
    thread::sleep(Duration::from_secs_f64(seconds));
    home_time.store(true, Ordering::Relaxed);
    for p in pickers {
        p.join().unwrap();
    }
    println!("{} moves, {} letters", stock.lock().unwrap().moves, letters.load(Ordering::Relaxed));
}
