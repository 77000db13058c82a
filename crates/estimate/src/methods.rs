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
    MethodInfo::for_config::<PrimedConfig>(),
    MethodInfo::for_config::<LinearScanConfig>(),
    MethodInfo::for_config::<PathTesterConfig>(),
    MethodInfo::for_config::<PathTesterClassicConfig>(),
    MethodInfo::for_config::<PathloadConfig>(),
    MethodInfo::for_config::<PathChirpConfig>(),
    MethodInfo::for_config::<IgiConfig>(),
    MethodInfo::for_config::<PtrConfig>(),
];
