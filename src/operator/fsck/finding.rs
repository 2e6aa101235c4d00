//! The result of a check: findings, their repairs, and the report.

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingWeight {
    /// A fact worth knowing; nothing disagrees.
    Note,
    /// A disagreement.
    Problem,
}

/// The kind of a finding, as a word for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A line of a journal was changed, or is not a record.
    Changed,
    /// Lines of a journal are missing.
    Lines,
    /// A journal does not end as it should.
    End,
    /// A half-written record at the end of a journal.
    Torn,
    /// A record's version is missing.
    VersionMissing,
    /// A version contradicts its record.
    VersionUnfit,
    /// A version that no record names.
    VersionOrphan,
    /// A record's entry of the trash is missing.
    EntryMissing,
    /// An entry of the trash that no record names.
    EntryUnknown,
    /// An entry of the trash has another inode than its record says.
    EntryOther,
    /// Sessions that were recorded in another store.
    Copied,
    /// The list of hard links in the trash is wrong.
    Links,
    /// The list of pinned inodes is wrong.
    Pinned,
    /// A directory of the store's own is missing or replaced.
    Layout,
    /// A purge was interrupted.
    Purge,
    /// The daemon did not end its session.
    Died,
    /// The end of a journal has no seal.
    Unsealed,
    /// A content does not match its digest.
    Content,
}

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Its weight.
    pub weight: FindingWeight,
    /// Its kind.
    pub kind: FindingKind,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The line of the journal, or the number of the version.
    #[serde(rename = "number", skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The problem, in plain English.
    pub what: String,
    /// The advice to the operator.
    pub remedy: String,
    /// The action of `--repair`; `None` where `--repair` cannot help.
    #[serde(skip)]
    pub mend: Option<RepairAction>,
    /// True if it has been repaired.
    pub repaired: bool,
}

impl Finding {
    fn new(
        weight: FindingWeight,
        kind: FindingKind,
        what: impl Into<String>,
        remedy: &str,
    ) -> Finding {
        Finding {
            weight,
            kind,
            session: None,
            at: None,
            what: what.into(),
            remedy: remedy.to_owned(),
            mend: None,
            repaired: false,
        }
    }

    pub(super) fn problem(kind: FindingKind, what: impl Into<String>, remedy: &str) -> Finding {
        Finding::new(FindingWeight::Problem, kind, what, remedy)
    }

    pub(super) fn note(kind: FindingKind, what: impl Into<String>, remedy: &str) -> Finding {
        Finding::new(FindingWeight::Note, kind, what, remedy)
    }

    pub(super) fn in_session(mut self, session: &str, at: Option<u64>) -> Finding {
        self.session = Some(session.to_owned());
        self.at = at;
        self
    }

    pub(super) fn with_repair(mut self, mend: RepairAction) -> Finding {
        self.mend = Some(mend);
        self
    }
}

/// A way to repair a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairAction {
    /// Truncate the journal to this length.
    Cut(u64),
    /// Settle the last session, as the next mount would.
    Settle,
    /// Append an end to a session whose journal has a break.
    Close,
    /// Append a seal to a journal that ends in a tampered one.
    Seal,
    /// Move a version without a record to the trash.
    Orphan,
    /// Rewrite the lists.
    Lists,
    /// Create the missing directories of the store.
    Layout,
}

/// The result of a check.
#[derive(Debug, Default, serde::Serialize)]
pub struct FsckReport {
    /// The findings, in the order of the sessions.
    pub findings: Vec<Finding>,
    /// The number of findings left out, by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<(FindingKind, u64)>,
    /// The number of sessions checked.
    pub sessions: u64,
    /// The number of records.
    pub records: u64,
    /// The number of entries of the trash.
    pub entries: u64,
    /// The number of versions.
    pub versions: u64,
    /// The verified contents; `None` where that was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedTotals>,
    /// True if a daemon served the store during the check.
    pub served: bool,
}

/// The progress of a check.
#[derive(Debug, Clone, Copy)]
pub enum CheckProgress {
    /// The number of records checked so far.
    Records(u64),
    /// The number of bytes of contents read so far.
    Bytes(u64),
}

/// The number of findings of each kind that are listed.
const MAX_LISTED_FINDINGS: usize = 200;

impl FsckReport {
    pub(super) fn add(&mut self, finding: Finding) {
        let of_kind = |f: &&Finding| f.kind == finding.kind;
        if self.findings.iter().filter(of_kind).count() < MAX_LISTED_FINDINGS {
            self.findings.push(finding);
            return;
        }
        match self.unnamed.iter_mut().find(|(k, _)| *k == finding.kind) {
            Some((_, more)) => *more += 1,
            None => self.unnamed.push((finding.kind, 1)),
        }
    }

    /// Returns the number of problems left.
    pub fn problems(&self) -> u64 {
        let left = |f: &&Finding| f.weight == FindingWeight::Problem && !f.repaired;
        let unnamed: u64 = self.unnamed.iter().map(|(_, more)| more).sum();
        self.findings.iter().filter(left).count() as u64 + unnamed
    }
}

/// The result of verifying contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifiedTotals {
    /// The number of contents compared with their digests.
    pub contents: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of contents without a digest.
    pub without: u64,
}
