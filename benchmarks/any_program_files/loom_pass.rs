// limit: silent |
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

struct Cloth {
    rows: Vec<u32>,
}

fn shuffle(rows: &mut [u32], mut key: u32) {
    for _ in 0..30 {
        for r in rows.iter_mut() {
            key = key.wrapping_mul(1664525).wrapping_add(1013904223);
            *r = r.rotate_left(key >> 28) ^ key;
        }
    }
}

fn main() {
    let seconds: f64 = std::env::args().last().and_then(|a| a.parse().ok()).unwrap_or(6.0);
    let (to_warp, warp_in) = channel::<Cloth>();
    let (to_weft, weft_in) = channel::<Cloth>();
    let (to_dye, dye_in) = channel::<Cloth>();
    let (to_fold, finished) = channel::<Cloth>();
    let warp = thread::Builder::new().name("warp".into()).spawn(move || {
        for mut cloth in warp_in {
            shuffle(&mut cloth.rows, 11);
            if to_weft.send(cloth).is_err() { return; }
        }
    }).unwrap();
    let weft = thread::Builder::new().name("weft".into()).spawn(move || {
        for mut cloth in weft_in {
            shuffle(&mut cloth.rows, 23);
            if to_dye.send(cloth).is_err() { return; }
        }
    }).unwrap();
    let dye = thread::Builder::new().name("dye".into()).spawn(move || {
        for mut cloth in dye_in {
            shuffle(&mut cloth.rows, 37);
            if to_fold.send(cloth).is_err() { return; }
        }
    }).unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut cloth = Cloth { rows: vec![7; 9000] };
    let mut lengths = 0;
    while Instant::now() < end {
        to_warp.send(cloth).unwrap();
        cloth = finished.recv().unwrap();
        lengths += 1;
    }
    drop(to_warp);
    warp.join().unwrap();
    weft.join().unwrap();
    dye.join().unwrap();
    println!("{lengths} lengths of cloth ({})", cloth.rows[5]);
}
