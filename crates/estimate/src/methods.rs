//! The table of methods.

use crate::igi::{IgiConfig, PtrConfig};
use crate::info::MethodInfo;
use crate::linear_scan::LinearScanConfig;
use crate::pathchirp::PathChirpConfig;
use crate::pathload::PathloadConfig;
use crate::pathtester::{PathTesterClassicConfig, PathTesterConfig};
use crate::primed::PrimedConfig;

/// Every method that users can choose, one line each. The command line, the lab, the schemas and the tests of what all
/// methods must do take their lists from here.
pub static METHODS: &[MethodInfo] = &[
    MethodInfo::of::<PrimedConfig>(),
    MethodInfo::of::<LinearScanConfig>(),
    MethodInfo::of::<PathTesterConfig>(),
    MethodInfo::of::<PathTesterClassicConfig>(),
    MethodInfo::of::<PathloadConfig>(),
    MethodInfo::of::<PathChirpConfig>(),
    MethodInfo::of::<IgiConfig>(),
    MethodInfo::of::<PtrConfig>(),
    #[cfg(feature = "dummy")]
    MethodInfo::of::<crate::dummy::DummyConfig>(),
];
