use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// The caller gives the number, and never gives it to another one: a plan that is changed, and a host that is
        /// renamed, keep theirs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);
    };
}

id! {
    /// What one run at a time may use: a host (an interface of it), or one direction of a declared link.
    ResourceId
}
id! {
    /// A program that takes grants: an agent.
    AgentId
}
id! {
    /// One measurement that is repeated: a pair and what is measured between its ends.
    RunId
}
id! {
    /// The runs that have a period in common.
    ClassId
}
