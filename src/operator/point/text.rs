//! Operations and points in JSON: the same text that the command line takes.

use super::{Operation, Point};

impl From<Operation> for String {
    fn from(operation: Operation) -> String {
        operation.to_string()
    }
}

impl From<Point> for String {
    fn from(point: Point) -> String {
        point.to_string()
    }
}

impl TryFrom<String> for Operation {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Operation, String> {
        let parts = text.rsplit_once(':');
        let parts = parts.and_then(|(session, seq)| Some((session, seq.parse().ok()?)));
        let (session, seq) = parts.ok_or_else(|| format!("{text:?} is not SESSION:NUMBER"))?;
        Ok(Operation {
            session: session.to_owned(),
            seq,
        })
    }
}

impl TryFrom<String> for Point {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Point, String> {
        match &*text {
            "now" => Ok(Point::Now),
            _ => Operation::try_from(text).map(Point::After),
        }
    }
}
