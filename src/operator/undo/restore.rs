//! Putting a file or a tree back as it was.
