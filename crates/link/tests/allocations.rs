//! Once a link's buffers have grown to what a load needs, packets pass without an allocation.

mod load;

#[test]
fn nothing_is_allocated_per_packet() {
    for mut load in load::loads() {
        load.carry(100_000);
        let mut delivered = 0;
        let counted = allocation_counter::measure(|| delivered = load.carry(100_000));
        assert!(delivered > 10_000, "{}: {delivered}", load.name);
        assert!(counted.count_total < 10, "{}: {} allocations", load.name, counted.count_total);
    }
}
