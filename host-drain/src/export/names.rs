//! `name_map_<label>.json`: what kernels are called, for readers that otherwise only have their numbers.

use crate::artifact::{ArtifactError, ArtifactFile, ArtifactInfo};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The names of one program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NameMap {
    /// 2 for a program of one chip.
    pub level: u32,
    /// What orchestrates; `null` if it has no name.
    pub orchestrator_name: Option<String>,
    /// By callable id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub callable_id_to_name: BTreeMap<u32, String>,
}

impl NameMap {
    /// Whether there is no name in it.
    pub fn is_empty(&self) -> bool {
        self.orchestrator_name.is_none() && self.callable_id_to_name.is_empty()
    }

    /// The file's name: every character of `label` that is not alphanumeric or one of `._-` becomes `_`.
    pub fn file_name(label: &str) -> String {
        let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        format!("name_map_{}.json", label.chars().map(keep).collect::<String>())
    }

    /// Writes the map of `label` into `dir`.
    ///
    /// # Errors
    /// [`ArtifactError`].
    pub fn write_to_dir(&self, dir: &Path, label: &str) -> Result<ArtifactInfo, ArtifactError> {
        let mut file = ArtifactFile::create(dir.join(Self::file_name(label)))?;
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from);
        if let Err(error) = text.and_then(|text| file.write_all(&text)) {
            return Err(ArtifactError::from_io(file.path(), error));
        }
        file.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_the_existing_runtimes_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let names = BTreeMap::from([(10, "PV".to_owned()), (2, "QK".to_owned())]);
        let map = NameMap { level: 2, orchestrator_name: Some("Orch".into()), callable_id_to_name: names };
        let info = map.write_to_dir(dir.path(), "a case/1").unwrap();
        assert_eq!(info.path, dir.path().join("name_map_a_case_1.json"));
        let expected = "{\n  \"level\": 2,\n  \"orchestrator_name\": \"Orch\",\n  \"callable_id_to_name\": {\n    \
                        \"2\": \"QK\",\n    \"10\": \"PV\"\n  }\n}";
        assert_eq!(std::fs::read_to_string(&info.path).unwrap(), expected);
        let none = NameMap { level: 2, ..NameMap::default() };
        assert!(none.is_empty());
        let info = none.write_to_dir(dir.path(), "none").unwrap();
        let text = std::fs::read_to_string(info.path).unwrap();
        assert_eq!(text, "{\n  \"level\": 2,\n  \"orchestrator_name\": null\n}");
    }
}
