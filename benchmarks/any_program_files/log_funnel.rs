// limit: thread | tokenise|tokenizer
use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

fn line(n: u64) -> String {
    format!(
        "2031-04-{:02} host{} svc[{}]: user={} path=/a/{}/b/{} status={} bytes={} agent=\"m/{}.{}\"",
        n % 28 + 1, n % 17, n % 4000, n * 31 % 9973, n % 211, n % 89, 200 + n % 5, n * 97 % 65536, n % 9, n % 10
    )
}

#[inline(never)]
fn tokenise(text: &str) -> Vec<(String, u64)> {
    let mut words = Vec::new();
    for round in 0..40u64 {
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if word.is_empty() {
                continue;
            }
            let low = word.to_lowercase();
            let mut h = round;
            for b in low.bytes() {
                h = (h ^ u64::from(b)).wrapping_mul(1099511628211);
            }
            words.push((low, h));
        }
    }
    words
}

fn main() {
    let seconds: f64 = std::env::args().last().and_then(|a| a.parse().ok()).unwrap_or(6.0);
    let (to_tokeniser, lines) = sync_channel::<String>(128);
    let (to_count, words) = sync_channel::<Vec<(String, u64)>>(128);
    let (to_report, hot) = sync_channel::<(u64, usize)>(128);
    let tokeniser = thread::Builder::new().name("tokenizer".into()).spawn(move || {
        for text in lines {
            if to_count.send(tokenise(&text)).is_err() {
                break;
            }
        }
    }).unwrap();
    let counter = thread::Builder::new().name("counter".into()).spawn(move || {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for batch in words {
            let mut top = (0, 0);
            for (_, h) in batch.iter().step_by(60) {
                let n = seen.entry(h % 5000).or_default();
                *n += 1;
                if *n > top.1 {
                    top = (*h, *n);
                }
            }
            if to_report.send(top).is_err() {
                break;
            }
        }
    }).unwrap();
    let report = thread::Builder::new().name("report".into()).spawn(move || {
        let (mut lines, mut best) = (0u64, 0usize);
        for (_, n) in hot {
            lines += 1;
            best = best.max(n);
        }
        println!("{lines} lines, most frequent seen {best} times");
    }).unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut n = 0;
    while Instant::now() < end {
        to_tokeniser.send(line(n)).unwrap();
        n += 1;
    }
    drop(to_tokeniser);
    tokeniser.join().unwrap();
    counter.join().unwrap();
    report.join().unwrap();
}
