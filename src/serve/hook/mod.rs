//! Hooks of agents: what becomes of a call of a tool that an agent is about to make.
//!
//! A hook is asked with an event (JSON) before each call, and answers with a decision. A line of the agent's shell becomes a
//! line of the bundled shell in a home; a file outside the home does not exist; everything else is left as it is. The answer is
//! what the agent takes: Claude Code's format, and Codex', which refuses fields that it does not know, and runs the call as it
//! was after an answer that it refuses (openai/codex, `codex-rs/hooks/schema/generated/pre-tool-use.command.output.schema.json`).
//!
//! A rewritten line needs the permission that the agent would ask for it, as far as an answer can say so (`permission`).
//!
//! A hook that fails lets the call pass. So nothing here fails: what cannot be understood is denied, with the reason.

mod decide;
mod event;
mod glob_pattern;
mod hook_home;
mod path_readings;
mod permission;

pub use decide::{answer, refusal};
pub use event::AgentKind;
pub use hook_home::HookSettings;
