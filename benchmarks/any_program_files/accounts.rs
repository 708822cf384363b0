// limit: lock | transfer|Bank|accounts
// Three tellers, one Mutex around the whole bank, and the interest computed inside.
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

struct Bank {
    balances: Vec<f64>,
}

#[inline(never)]
fn transfer(bank: &Mutex<Bank>, from: usize, to: usize) {
    let mut held = bank.lock().unwrap();
    held.balances[from] -= 1.0;
    held.balances[to] += 1.0;
    for _ in 0..6 {
        for b in held.balances.iter_mut() {
            *b = (*b * 1.000001).min(1e9) + 0.0001;
        }
    }
}

#[inline(never)]
fn verify(mut x: usize) -> usize {
    for _ in 0..3000 {
        x = x.wrapping_mul(1664525).wrapping_add(1013904223);
    }
    x
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(2.0, |s| s.parse().unwrap());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let bank = Arc::new(Mutex::new(Bank { balances: vec![100.0; 4000] }));
    let tellers: Vec<_> = (1..4usize)
        .map(|mut x| {
            let bank = Arc::clone(&bank);
            thread::spawn(move || {
                while Instant::now() < until {
                    x = verify(x);
                    transfer(&bank, x % 4000, (x >> 12) % 4000);
                }
            })
        })
        .collect();
    for t in tellers {
        t.join().unwrap();
    }
    println!("{}", bank.lock().unwrap().balances[0]);
}
