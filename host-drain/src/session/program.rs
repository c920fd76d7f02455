//! What a session is told of the program by the runtime's host, after it was configured.

use super::{Session, SessionError, State};
use crate::config::ConfigError;
use crate::export::host::HostOrchestration;

impl Session {
    /// What the host's own orchestration adds to the swimlane's file. Before [`export`](Self::export).
    ///
    /// # Errors
    /// [`SessionError::Order`] once released.
    pub fn set_host_orchestration(&mut self, host: HostOrchestration) -> Result<(), SessionError> {
        let before = [State::Configured, State::Running, State::Stopped, State::Reconciled];
        self.expect("set_host_orchestration", &before)?;
        self.host = Some(host);
        Ok(())
    }

    /// What the cores are (`true` for AIC), for a caller that learns it after [`configure`](Self::configure). Before
    /// [`export`](Self::export).
    ///
    /// # Errors
    /// [`SessionError::Config`] unless there is one for each core, [`SessionError::Order`] once released.
    pub fn set_core_types(&mut self, core_is_aic: Vec<bool>) -> Result<(), SessionError> {
        let before = [State::Configured, State::Running, State::Stopped, State::Reconciled];
        self.expect("set_core_types", &before)?;
        if core_is_aic.len() != self.board.core_is_aic.len() {
            let expected = format!("one for each of {} cores", self.board.cores());
            return Err(ConfigError::new("core_types", core_is_aic.len(), expected).into());
        }
        self.board.core_is_aic = core_is_aic;
        Ok(())
    }
}
