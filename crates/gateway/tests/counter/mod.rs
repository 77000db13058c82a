use kumade_net::namespace::Namespace;
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};

/// Counts packets that arrive at a host, independently of any gateway.
pub struct Counter {
    table: InstalledTable,
}

impl Counter {
    /// One count for each list of conditions. Ports that are not of `Sites::send` do not disturb: nothing else is sent.
    pub fn new(inside: &Namespace, conditions: &[Vec<Statement>]) -> Self {
        let counters: Vec<_> = (0..conditions.len()).map(|number| format!("c{number}")).collect();
        let rules = conditions.iter().zip(&counters);
        let rules = rules.map(|(conditions, name)| Rule([&conditions[..], &[Statement::Count(name.clone())]].concat()));
        let chain = Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(-400)), rules: rules.collect() };
        let table = Table { name: "counter".into(), counters, flow_lists: vec![], chains: vec![chain] };
        Counter { table: inside.run(|| InstalledTable::install(&table)).unwrap().unwrap() }
    }

    pub fn packets(&self) -> Vec<u64> {
        self.table.counter_values().unwrap().values().map(|count| count.packets).collect()
    }
}
