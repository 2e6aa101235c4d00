//! [`McpServer`]: answers the protocol's requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::admission::RequestAdmission;
use super::answer::ToolAnswer;
use super::arguments;
use super::calls::{ToolFunction, call};
use super::jobs::ToolJobs;
use super::kept_outputs::KeptOutputs;
use super::live_output::LiveOutput;
use super::resources;
use super::server_home::{ProgramInfo, ServerHome, ServerSettings};
use super::sessions::{McpSession, McpSessions};
use super::tool_context::ToolContext;
use super::tools::{self, LINES, RUN, ToolSpec};
use crate::error::{Error, Result};
use crate::exec::{CancelToken, Limits};

/// Bytes of a token.
const TOKEN: u64 = 4;

const INSTRUCTIONS: &str = "\
A home that nothing can hurt: what is removed lies in .trash, what is overwritten is kept, and every change is recorded. \
`history` lists what this session changed, `undo` takes it back. Nothing outside the home exists. Each answer names its \
`session`; pass it on to keep the directory, variables and history.";

/// The methods that this server has, whose parameters were not as they should be.
const METHODS: [&str; 8] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// A server of one client.
pub(super) struct McpServer {
    /// The client's requests that go on.
    admission: RequestAdmission,
    workplace: Arc<Mutex<Arc<ServerHome>>>,
    /// The settings to open the home with again if its daemon ends.
    settings: ServerSettings,
    /// Held while the home is opened anew.
    opening: Arc<Mutex<()>>,
    sessions: Arc<McpSessions>,
    jobs: Arc<ToolJobs>,
    /// The outputs that were too long for an answer.
    outputs: Arc<KeptOutputs>,
    /// The session of a connection that began with `initialize`.
    default: Mutex<Option<Arc<McpSession>>>,
    /// The real programs, by the names of their tools.
    programs: BTreeMap<String, String>,
    /// The tools that a client is shown.
    tools: Vec<Tool>,
    /// The largest number of bytes of each stream that leave.
    bytes: u64,
}

impl McpServer {
    /// Makes one.
    ///
    /// # Errors
    /// Those of opening the home; [`Error::Usage`] for a tool that there is not.
    pub(super) fn new(settings: ServerSettings, admission: RequestAdmission) -> Result<McpServer> {
        let workplace = ServerHome::open(settings.clone())?;
        let (wanted, tokens) = (&settings.tools, settings.tokens);
        let named = by_tool(workplace.programs());
        let mut shown: Vec<Tool> = tools::names()
            .filter_map(tools::find)
            .map(|tool| tool.shown(&workplace))
            .collect();
        shown.extend(
            named
                .iter()
                .map(|(name, program)| tools::shown_program(name.clone(), program)),
        );
        for name in wanted {
            if !shown.iter().any(|tool| tool.name == *name) {
                let names: Vec<&str> = shown.iter().map(|tool| &*tool.name).collect();
                return Err(Error::usage(
                    format!("there is no tool {name:?}"),
                    format!("There are {}.", names.join(", ")),
                ));
            }
        }
        match wanted.is_empty() {
            true => shown.retain(|tool| tools::find(&tool.name).is_some_and(ToolSpec::is_usual)),
            false => shown.retain(|tool| wanted.iter().any(|name| *name == tool.name)),
        }
        Ok(McpServer {
            admission,
            workplace: Arc::new(Mutex::new(Arc::new(workplace))),
            settings: settings.clone(),
            opening: Arc::default(),
            sessions: Arc::default(),
            jobs: Arc::default(),
            outputs: Arc::default(),
            default: Mutex::default(),
            programs: named
                .into_iter()
                .map(|(name, program)| (name, program.name))
                .collect(),
            tools: shown,
            bytes: tokens.saturating_mul(TOKEN),
        })
    }

    /// Returns what goes on after its answer.
    pub(super) fn jobs(&self) -> Arc<ToolJobs> {
        self.jobs.clone()
    }

    /// Returns the sessions.
    pub(super) fn sessions(&self) -> Arc<McpSessions> {
        self.sessions.clone()
    }

    fn begin(&self) -> Arc<McpSession> {
        let workplace = self.workplace.lock().clone();
        self.sessions.begin(&workplace, Limits::default())
    }

    /// Returns where calls work. A home whose daemon has ended is opened anew.
    async fn workplace(&self) -> std::result::Result<Arc<ServerHome>, ToolAnswer> {
        let current = self.workplace.lock().clone();
        if !current.is_lost() {
            return Ok(current);
        }
        let (settings, opening) = (self.settings.clone(), self.opening.clone());
        let (workplace, sessions) = (self.workplace.clone(), self.sessions.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let _one = opening.lock();
            let current = workplace.lock().clone();
            if !current.is_lost() {
                return Ok(current);
            }
            let opened = Arc::new(ServerHome::open(settings)?);
            sessions.move_to(&opened, Limits::default());
            *workplace.lock() = opened.clone();
            Ok(opened)
        });
        let broken = |_| ToolAnswer::failed("the home could not be opened anew");
        opened
            .await
            .map_err(broken)?
            .map_err(|error: Error| ToolAnswer::from(error))
    }

    /// Returns the session that a call belongs to.
    fn session(
        &self,
        named: Option<&str>,
        has_connection: bool,
    ) -> std::result::Result<Arc<McpSession>, String> {
        if let Some(id) = named {
            let unknown = || {
                format!(
                    "session: {id:?} is not known here, or was forgotten for newer ones: leave it out for a new one"
                )
            };
            return self.sessions.find(id).ok_or_else(unknown);
        }
        if !has_connection {
            return Ok(self.begin());
        }
        let mut default = self.default.lock();
        // A look at it keeps it from being forgotten.
        let known = default
            .as_ref()
            .and_then(|session| self.sessions.find(&session.id));
        Ok(default
            .insert(known.unwrap_or_else(|| self.begin()))
            .clone())
    }

    /// Says that a tool is not offered, and what is instead.
    fn no_tool(&self, name: &str) -> String {
        if tools::find(name).is_none() && !self.programs.contains_key(name) {
            return format!("there is no tool {name:?}");
        }
        let lines = self.tools.iter().find(|tool| tool.name == LINES);
        let instead = lines.map_or("", |_| "; bash does the same");
        format!("the tool {name:?} is not offered here, unless `--tools` names it{instead}")
    }

    /// Returns what a call does, and whether it may become a job.
    fn act(&self, name: &str) -> Option<(ToolFunction, bool)> {
        self.tools.iter().find(|tool| tool.name == name)?;
        if let Some(tool) = tools::find(name) {
            let act = Box::new(|work: &ToolContext, arguments| tool.run(work, arguments));
            return Some((act, !tool.is_about_jobs()));
        }
        let program = self.programs.get(name)?.clone();
        let act = Box::new(move |work: &ToolContext, arguments| {
            tools::run_program(work, &program, arguments)
        });
        Some((act, true))
    }
}

/// Returns whether the revision of a request has links to resources in answers.
fn has_links(context: &RequestContext<RoleServer>) -> bool {
    let older = [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26];
    let opened = context.peer.peer_info();
    opened.is_none_or(|opened| !older.contains(&opened.protocol_version))
}

/// Gives each program the name of a tool: letters, digits, `_` and `-` are what all clients take.
fn by_tool(programs: Vec<ProgramInfo>) -> BTreeMap<String, ProgramInfo> {
    let mut by_tool = BTreeMap::new();
    for program in programs {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let mut name: String = RUN
            .chars()
            .chain(program.name.chars().map(plain))
            .take(60)
            .collect();
        while by_tool.contains_key(&name) {
            name.push('_');
        }
        by_tool.insert(name, program);
    }
    by_tool
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let this = Implementation::new("trumanfs", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(this)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let workplace = self.workplace.lock().clone();
        let mut tools = self.tools.clone();
        // The policy may say something else by now.
        if let Some(lines) = tools.iter_mut().find(|tool| tool.name == LINES)
            && let Some(spec) = tools::find(LINES)
        {
            *lines = spec.shown(&workplace);
        }
        for program in workplace.programs() {
            let named = self.programs.iter().find(|named| *named.1 == program.name);
            let listed = tools.iter_mut();
            let listed =
                named.and_then(|(name, _)| listed.into_iter().find(|tool| tool.name == *name));
            if let Some(tool) = listed {
                *tool = tools::shown_program(tool.name.to_string(), &program);
            }
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let name = &*request.name;
        let Some((act, becomes_job)) = self.act(name) else {
            return Err(ErrorData::invalid_params(self.no_tool(name), None));
        };
        let cancelled = || ToolAnswer::failed("cancelled");
        let has_links = has_links(&context);
        let Some(ticket) = self.admission.ticket(&context.id) else {
            return Ok(cancelled().into_result(has_links).into());
        };
        let workplace = match self.workplace().await {
            Ok(workplace) => workplace,
            Err(answer) => return Ok(answer.into_result(has_links).into()),
        };
        let mut arguments = request.arguments.unwrap_or_default();
        let has_connection = context.peer.peer_info().is_some();
        let session = arguments::session(&mut arguments)
            .and_then(|named| self.session(named.as_deref(), has_connection));
        let session = match session {
            Ok(session) => session,
            Err(wrong) => return Ok(ToolAnswer::failed(wrong).into_result(has_links).into()),
        };
        let work = ToolContext {
            workplace,
            session,
            jobs: self.jobs.clone(),
            cancel: CancelToken::default(),
            streams: [(), ()].map(|()| LiveOutput::new(&self.outputs, self.bytes)),
            outputs: self.outputs.clone(),
            bytes: self.bytes,
        };
        let act = (name, act, becomes_job);
        let answer = call(act, (work, ticket), arguments, &context).await;
        let answer = answer.unwrap_or_else(cancelled);
        Ok(answer.into_result(has_links).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list(
            &self.sessions,
            &self.outputs,
        )))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![
            resources::template(),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<ReadResourceResponse, ErrorData> {
        let cancelled = || ErrorData::internal_error("cancelled", None);
        let ticket = self.admission.ticket(&context.id).ok_or_else(cancelled)?;
        let workplace = self.workplace().await;
        let workplace = workplace.map_err(|answer| ErrorData::internal_error(answer.text, None))?;
        let (sessions, uri) = (self.sessions.clone(), request.uri);
        let outputs = self.outputs.clone();
        let most = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let cancel = CancelToken::default().within(Some(resources::TIME));
        let of_thread = cancel.clone();
        let read = tokio::task::spawn_blocking(move || {
            let found = match resources::read_output(&sessions, &outputs, &uri, most) {
                Some(found) => Ok(Some(found)),
                None => resources::read(&workplace, &sessions, &uri, (most, &of_thread)),
            };
            drop(ticket);
            (uri, found)
        });
        let read = tokio::select! {
            read = read => read,
            () = context.ct.cancelled() => {
                cancel.cancel();
                return Err(cancelled());
            }
        };
        match read {
            Ok((_, Ok(Some(found)))) => Ok(found.into()),
            Ok((uri, Ok(None))) => Err(ErrorData::resource_not_found(
                format!("there is no resource {uri:?}"),
                None,
            )),
            Ok((_, Err(error))) => Err(ErrorData::internal_error(error.full_message(), None)),
            Err(_) => Err(ErrorData::internal_error("reading broke off", None)),
        }
    }

    /// A method that the SDK knows comes here where its parameters were not as they should be.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(match METHODS.contains(&&*method) {
            true => ErrorData::invalid_params(
                format!("{method}: its parameters are not as the protocol has them"),
                None,
            ),
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None),
        })
    }
}
