//! A gateway's bonded plane: what its configuration comes to, and what is seen of it. The plane itself is
//! [`kumade_overlay_io::BondedPlane`].

mod config;
mod status;

pub(crate) use config::path_binding;
pub use config::plane_config;
pub use status::fill_bonded_status;
