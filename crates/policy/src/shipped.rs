//! The policies that this program brings along, as text.

/// Their names, and what `--policy NAME` reads.
const SHIPPED: &[(&str, &str)] = &[
    ("default", include_str!("../../../policies/default.yaml")),
    (
        "development",
        include_str!("../../../policies/development.yaml"),
    ),
    (
        "production",
        include_str!("../../../policies/production.yaml"),
    ),
];

/// Returns the text of the policy of this name.
pub(super) fn text(name: &str) -> Option<&'static str> {
    let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    found.map(|(_, text)| *text)
}

/// Returns the names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}
