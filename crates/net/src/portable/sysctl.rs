//! Settings of the kernel, which only Linux has.

/// None.
pub fn read_number(_name: &str) -> Option<u32> {
    None
}
