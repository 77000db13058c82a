/// What can be loaded.
#[derive(Debug, Clone, Copy)]
pub enum Controller {
    Bic,
    Compound,
    Dctcp,
    Prague,
    Vegas,
}

impl Controller {
    /// At most 15 characters; the programs in `bpf/` register it.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Bic => "kumade_bic",
            Controller::Compound => "kumade_compound",
            Controller::Dctcp => "kumade_dctcp",
            Controller::Prague => "kumade_prague",
            Controller::Vegas => "kumade_vegas",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Controller::Bic => "BIC",
            Controller::Compound => "Compound TCP",
            Controller::Dctcp => "DCTCP",
            Controller::Prague => "TCP Prague",
            Controller::Vegas => "TCP Vegas",
        }
    }
}
