//! Sorts the entries of a listing.

use std::cmp::Ordering;

use super::file::File;
use super::flags::Settings;
use super::order::{Order, versions};

/// Sorts files.
pub(super) fn sort(files: &mut [File], settings: &Settings) {
    if settings.order == Order::None {
        return;
    }
    files.sort_by(|a, b| {
        let order = compare(a, b, settings);
        let order = match settings.reverse {
            true => order.reverse(),
            false => order,
        };
        match settings.directories_first {
            true => b.is_dir().cmp(&a.is_dir()).then(order),
            false => order,
        }
    });
}

fn compare(a: &File, b: &File, settings: &Settings) -> Ordering {
    let order = match settings.order {
        Order::None | Order::Name => Ordering::Equal,
        Order::Time => {
            let time = |file: &File| file.meta.map(|meta| settings.stamp.of(&meta));
            time(b).cmp(&time(a))
        }
        Order::Size => {
            let size = |file: &File| file.meta.map(|meta| meta.size);
            size(b).cmp(&size(a))
        }
        Order::Extension => extension(&a.name).cmp(extension(&b.name)),
        Order::Version => versions(&a.name, &b.name),
    };
    order.then_with(|| a.name.cmp(&b.name))
}

fn extension(name: &[u8]) -> &[u8] {
    let dot = memchr::memrchr(b'.', name);
    dot.and_then(|dot| name.get(dot..)).unwrap_or_default()
}
