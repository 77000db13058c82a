use kumade_netns_testbed::Sites;

/// Packets that each path has carried in both directions.
pub(super) fn carried_packets(sites: &Sites) -> anyhow::Result<Vec<u64>> {
    let both = |[up, down]: [kumade_link::Counters; 2]| up.forwarded.packets + down.forwarded.packets;
    Ok(sites.link_counters()?.into_iter().map(both).collect())
}
