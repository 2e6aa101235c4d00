//! Lines in a real shell of this machine, in a sandbox: [`SystemShell`].
//!
//! A line alone is run as `bash -c LINE` runs it. In a session, one shell goes on from line to line with its working
//! directory, variables, functions and options. A line runs *in* that shell, where it reaches every descriptor: what is
//! said at its end is the occupant's word, and a forged end costs the occupant's own session alone.
//!
//! What decides is the sandbox: nothing here knows what a line means.

mod line_exchange;
mod line_output;
mod line_pipes;
mod running_shell;
mod script;
mod settings;
mod shell;
mod shell_start;
mod single_line;

pub use settings::SystemShellSettings;
pub use shell::SystemShell;
