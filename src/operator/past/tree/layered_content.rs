//! Opens the former contents of a file one after the other, the newest first.
//!
//! A file can have thousands of them, each of which is read through all the later ones.

use std::fs::File;
use std::sync::Arc;

use crate::error::Result;
use crate::operator::Store;
use crate::operator::past::tree::content::PastContent;
use crate::operator::past::tree::layer::{ContentLayer, describe_record, version};

/// A content opened for reading, with the layers that it is made of.
#[derive(Debug)]
pub struct LayeredContent {
    top: Option<Arc<ContentLayer>>,
    /// The content.
    pub content: PastContent,
}

impl Default for LayeredContent {
    fn default() -> LayeredContent {
        LayeredContent {
            top: None,
            content: PastContent::empty(),
        }
    }
}

impl LayeredContent {
    /// Opens an earlier content as [`PastContent::open_unverified`] does, but where only one version lies between the
    /// two, opens that one alone.
    ///
    /// # Errors
    /// As [`PastContent::open_unverified`].
    pub(super) fn before(
        self,
        store: &Store,
        top: Option<&Arc<ContentLayer>>,
        now: impl FnOnce() -> Result<File>,
    ) -> Result<LayeredContent> {
        let looked = |content| LayeredContent {
            top: top.cloned(),
            content,
        };
        let (Some(layer), Some(known)) = (top, &self.top) else {
            return PastContent::open_unverified(store, top, now).map(looked);
        };
        let below = layer.below.as_ref();
        if below.is_some_and(|below| Arc::ptr_eq(below, known))
            && !layer.doubtful
            && self.content.missing_part().is_none()
        {
            let opened = version(store, &layer.kind, &|| describe_record(layer))?;
            let list = opened.as_ref().and_then(|opened| opened.list.as_ref());
            if list.is_none_or(|list| list.past.is_none()) {
                let mut content = self.content;
                content.put_layer(layer, opened)?;
                if content.end_where_it_is_known(false) {
                    return Ok(looked(content));
                }
            }
        }
        PastContent::open_unverified(store, top, now).map(looked)
    }
}
