//! x
use estimate::*;
use sim::atlas::*;
use units::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let kind: PathKind = a[0].parse().unwrap();
    let n: u32 = a[1].parse().unwrap();
    let show = a.len() > 2;
    let (mut vals, mut cov, mut wrong, mut err, mut w, mut bytes, mut secs) = (0, 0, 0, 0.0, vec![], 0.0, 0.0);
    for k in 0..n {
        let p = DrawnPath::new(kind, Seeds::Tuning.seed(k));
        let mut path = p.build().unwrap();
        let rate = Rate::from_f64(p.sustained.as_f64() * 0.5);
        let budget = 20_000_000;
        let mut lt = LongTrains::new(LongTrainsConfig { rate, turn: if kind == PathKind::Cellular { Span::from_millis(1) } else if let Some(link::Medium::Wireless(w)) = &p.hops[0].link.medium { p.sustained.time_for(u64::from(w.packets) * 1500) } else { Span::from_micros(500) }, max_packet: 1500, max_packets: 5000, budget_bytes: budget, budget_time: Span::from_secs(8), seed: k.into() });
        if a.len() > 3 && a[3] != k.to_string() { continue; } let mut start = None;
        let begun = path.now();
        let mut sent = 0;
        let found = loop {
            match lt.next(path.now()) {
                Step::Send { wait, train } => {
                    path.wait(wait);
                    start.get_or_insert(path.now());
                    sent += train.bytes();
                    let r = path.send_as(&train, 0);
                    path.wait(path.delay());
                    lt.record(&r);
                }
                Step::Done(found) => break found,
            }
        };
        path.settle();
        let truth = path.truth(start.unwrap(), path.now());
        bytes += sent as f64; secs += (path.now() - begun).as_secs_f64();
        if let Some(v) = found { let (f, t) = (v.available, v.trains);
            let j = Judgement::of(&f, truth, p.sustained);
            vals += 1; cov += usize::from(j.covers); wrong += usize::from(j.fault().is_some()); err += j.error.abs(); w.push(j.width);
            if show { println!("{k}: {} {} cross {} truth {truth} found {} ({} to {}) of {t} {}", format!("{:?}", p.hops[0].cross.first().map(|c| &c.kind)).chars().take(40).collect::<String>(), p.sustained, p.cross, f.value, f.low, f.high, if j.fault().is_some() {"WRONG"} else if !j.covers {"miss"} else {""}); }
        } else if show { println!("{k}: {} cross {} truth {truth} none", p.sustained, p.cross); }
    }
    w.sort_by(f64::total_cmp);
    println!("{kind}: {vals} of {n}, covered {:.1} %, wrong {wrong}, error {:.2} %, width {:.3}, {:.2} MB {:.2} s", cov as f64 / vals as f64 * 100.0, err / vals as f64 * 100.0, w.get(w.len()/2).copied().unwrap_or(0.0), bytes / f64::from(n) / 1e6, secs / f64::from(n));
}
