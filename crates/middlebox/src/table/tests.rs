use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const IDLE: [Span; 2] = [Span::from_nanos(10), Span::from_nanos(35)];

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u8, usize),
    Refresh(u8, usize),
    Remove(u8),
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..20, 0usize..2).prop_map(|(key, queue)| Step::Insert(key, queue)),
        2 => (0u8..20, 0usize..2).prop_map(|(key, queue)| Step::Refresh(key, queue)),
        1 => (0u8..20).prop_map(Step::Remove),
        2 => (0i64..20).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// The table against a plain map of deadlines.
    #[test]
    fn entries_are_found_until_they_expire_or_are_removed(steps in steps()) {
        let mut table: IdleTable<u8, u8, 2> = IdleTable::new(7, 12, IDLE);
        let mut model: BTreeMap<u8, (usize, Time)> = BTreeMap::new();
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Insert(key, queue) if table.find(&key).is_none() => {
                    let inserted = table.insert(key, key ^ 0xff, queue, now).is_some();
                    prop_assert_eq!(inserted, model.len() < 12);
                    if inserted {
                        model.insert(key, (queue, now + IDLE[queue]));
                    }
                }
                Step::Refresh(key, queue) => {
                    if let Some(id) = table.find(&key) {
                        table.refresh(id, queue, now);
                        model.insert(key, (queue, now + IDLE[queue]));
                    }
                }
                Step::Remove(key) => {
                    if let Some(id) = table.find(&key) {
                        prop_assert_eq!(table.remove(id), (key, key ^ 0xff));
                        model.remove(&key);
                    }
                }
                Step::Wait(nanos) => {
                    now += Span::from_nanos(nanos);
                    while let Some(id) = table.expired_entry(now) {
                        let (_, deadline) = model.remove(&table.remove(id).0).unwrap();
                        prop_assert!(deadline <= now);
                    }
                    prop_assert!(model.values().all(|(_, deadline)| *deadline > now));
                }
                Step::Insert(..) => {}
            }
            prop_assert_eq!((table.len(), table.is_full()), (model.len(), model.len() == 12));
            for key in 0..20 {
                let found = table.find(&key).map(|id| (table.queue(id), table.deadline(id)));
                prop_assert_eq!(found, model.get(&key).copied());
            }
            let mut listed: Vec<_> = table.ids().map(|id| *table.key(id)).collect();
            listed.sort();
            prop_assert!(listed.iter().eq(model.keys()));
            for (queue, idle) in IDLE.iter().enumerate() {
                let oldest = table.oldest_in_queue(queue).map(|id| table.last_refresh(id));
                let expected = model.values().filter(|(own, _)| *own == queue).map(|(_, deadline)| *deadline - *idle).min();
                prop_assert_eq!(oldest, expected);
            }
        }
    }
}

#[test]
fn hashes_depend_on_the_seed() {
    assert_eq!(keyed_hash(1, &"key"), keyed_hash(1, &"key"));
    assert_ne!(keyed_hash(1, &"key"), keyed_hash(2, &"key"));
    assert_ne!(keyed_hash(1, &"key"), keyed_hash(1 << 64, &"key"));
}
