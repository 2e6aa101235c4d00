//! Sorts the entries of a listing.

use std::cmp::Ordering;

use super::file::ListedFile;
use super::flags::LsSettings;
use super::order::{SortOrder, compare_versions};

/// Sorts files.
pub(super) fn sort(files: &mut [ListedFile], settings: &LsSettings) {
    if settings.order == SortOrder::None {
        return;
    }
    files.sort_by(|a, b| {
        let order = compare(a, b, settings);
        let order = if settings.reverse {
            order.reverse()
        } else {
            order
        };
        if settings.directories_first {
            b.is_dir().cmp(&a.is_dir()).then(order)
        } else {
            order
        }
    });
}

fn compare(a: &ListedFile, b: &ListedFile, settings: &LsSettings) -> Ordering {
    let order = match settings.order {
        SortOrder::None | SortOrder::Name => Ordering::Equal,
        SortOrder::Time => {
            let time = |file: &ListedFile| file.meta.map(|meta| settings.stamp.of(&meta));
            time(b).cmp(&time(a))
        }
        SortOrder::Size => {
            let size = |file: &ListedFile| file.meta.map(|meta| meta.size);
            size(b).cmp(&size(a))
        }
        SortOrder::Extension => extension(&a.name).cmp(extension(&b.name)),
        SortOrder::Version => compare_versions(&a.name, &b.name),
    };
    order.then_with(|| a.name.cmp(&b.name))
}

fn extension(name: &[u8]) -> &[u8] {
    let dot = memchr::memrchr(b'.', name);
    dot.and_then(|dot| name.get(dot..)).unwrap_or_default()
}
