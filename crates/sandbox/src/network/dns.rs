//! Questions and answers of the DNS (RFC 1035), as far as a sandbox needs them: one question, one address.
//!
//! Nothing is asked elsewhere for an answer, so a name that somebody makes up carries nothing out.

use std::net::Ipv4Addr;

use super::byte_reader::ByteReader;

/// A question of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DnsQuestion<'a> {
    /// The number, flags and question as they came.
    id: &'a [u8],
    recursion: bool,
    section: &'a [u8],
    /// The name, its labels joined by dots. They may have any byte in them.
    pub(super) name: Vec<u8>,
    /// True if the question asks for the IPv4 address.
    pub(super) is_address: bool,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DnsAnswer {
    Address(Ipv4Addr),
    /// The name exists and has nothing of this kind.
    NoData,
    /// The name does not exist.
    NoName,
    /// There is no answer at the moment.
    Failure,
}

/// The time that an answer holds, in seconds. An address never changes.
const TTL: u32 = 300;

/// Reads a question, or returns what to send instead of an answer, if anything.
pub(super) fn read(message: &[u8]) -> Result<DnsQuestion<'_>, Option<Vec<u8>>> {
    let mut bytes = ByteReader(message);
    let header = (bytes.take(2), bytes.take(2), bytes.short(), bytes.take(6));
    let (Some(id), Some(&[flags, _]), Some(questions), Some(_)) = header else {
        return Err(None);
    };
    if flags & 0x80 != 0 {
        // An answer: whoever replied to it might be replied to for ever.
        return Err(None);
    }
    let recursion = flags & 1 != 0;
    let refuse = |code: u8| Err(Some(head(id, recursion, code, 0, 0)));
    if flags & 0x78 != 0 {
        return refuse(4);
    }
    let section = bytes;
    let Some((name, kind, class)) = question(&mut bytes).filter(|_| questions == 1) else {
        return refuse(1);
    };
    let len = section.0.len() - bytes.0.len();
    Ok(DnsQuestion {
        id,
        recursion,
        section: section.0.get(..len).unwrap_or_default(),
        name,
        is_address: (kind, class) == (1, 1),
    })
}

fn question(bytes: &mut ByteReader<'_>) -> Option<(Vec<u8>, u16, u16)> {
    let mut name = Vec::new();
    loop {
        // Lengths from 64 on are pointers, and there is nothing before a question to point to.
        let label = match bytes.byte()? {
            0 => break,
            len @ 1..64 => bytes.take(len.into())?,
            _ => return None,
        };
        // A dot in a label would read like the border of two.
        if label.contains(&b'.') || name.len() + label.len() > 254 {
            return None;
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend(label);
    }
    Some((name, bytes.short()?, bytes.short()?))
}

/// Returns a header: an answer, of a server that is no authority and recurses.
fn head(id: &[u8], recursion: bool, code: u8, questions: u8, answers: u8) -> Vec<u8> {
    let flags = [0x80 | u8::from(recursion), 0x80 | code];
    [id, &flags, &[0, questions, 0, answers, 0, 0, 0, 0]].concat()
}

impl DnsQuestion<'_> {
    /// Writes the answer.
    pub(super) fn answer(&self, answer: DnsAnswer) -> Vec<u8> {
        let (code, count) = match answer {
            DnsAnswer::Address(_) => (0, 1),
            DnsAnswer::NoData => (0, 0),
            DnsAnswer::NoName => (3, 0),
            DnsAnswer::Failure => (2, 0),
        };
        let mut out = head(self.id, self.recursion, code, 1, count);
        out.extend(self.section);
        if let DnsAnswer::Address(address) = answer {
            // The name of the question, A, IN.
            out.extend([0xc0, 12, 0, 1, 0, 1]);
            out.extend(TTL.to_be_bytes());
            out.extend([0, 4]);
            out.extend(address.octets());
        }
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn asked(name: &str, kind: u16) -> Vec<u8> {
        let mut out = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            out.push(u8::try_from(label.len()).unwrap());
            out.extend(label.bytes());
        }
        out.push(0);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out
    }

    #[test]
    fn a_question_is_answered() {
        let message = asked("Example.ORG", 1);
        let question = read(&message).unwrap();
        assert_eq!(
            (&question.name[..], question.is_address),
            (&b"Example.ORG"[..], true)
        );
        let answer = question.answer(DnsAnswer::Address(Ipv4Addr::new(198, 18, 0, 1)));
        assert_eq!(
            answer[..12],
            [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]
        );
        assert_eq!(answer[12..message.len()], message[12..]);
        assert_eq!(
            answer[message.len()..],
            [0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 198, 18, 0, 1]
        );
        for (what, code) in [
            (DnsAnswer::NoData, 0x80),
            (DnsAnswer::NoName, 0x83),
            (DnsAnswer::Failure, 0x82),
        ] {
            let answer = question.answer(what);
            assert_eq!((answer[3], answer.len()), (code, message.len()));
            assert_eq!(answer[6..8], [0, 0]);
        }
    }

    #[test]
    fn other_kinds_are_not_addresses_and_the_rest_is_ignored() {
        // AAAA, HTTPS, SVCB, ANY, TXT.
        for kind in [28, 65, 64, 255, 16] {
            assert!(!read(&asked("a.example", kind)).unwrap().is_address);
        }
        let mut chaos = asked("a.example", 1);
        *chaos.last_mut().unwrap() = 3;
        assert!(!read(&chaos).unwrap().is_address);
        // EDNS: an additional record after the question.
        let mut edns = asked("a.example", 1);
        edns[11] = 1;
        edns.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
        let answer = read(&edns).unwrap().answer(DnsAnswer::NoName);
        assert_eq!(answer.len(), asked("a.example", 1).len());
        assert_eq!(read(&asked("", 2)).unwrap().name, b"");
    }

    #[test]
    fn what_is_no_question_is_refused() {
        assert_eq!(read(b"short"), Err(None));
        let mut answer = asked("a.example", 1);
        answer[2] |= 0x80;
        assert_eq!(read(&answer), Err(None));
        let code = |message: &[u8]| read(message).unwrap_err().unwrap()[3] & 15;
        let mut update = asked("a.example", 1);
        update[2] |= 5 << 3;
        assert_eq!(code(&update), 4);
        let mut two = asked("a.example", 1);
        two[5] = 2;
        assert_eq!(code(&two), 1);
        let mut pointer = asked("a.example", 1);
        pointer[12] = 0xc0;
        assert_eq!(code(&pointer), 1);
        let mut dotted = asked("aaa.example", 1);
        dotted[14] = b'.';
        assert_eq!(code(&dotted), 1);
        let long = ["abcdefghijklmno."; 20].concat();
        assert_eq!(code(&asked(&long, 1)), 1);
        let whole = asked("a.example", 1);
        for cut in 12..whole.len() {
            assert_eq!(code(&whole[..cut]), 1, "cut at {cut}");
        }
    }
}
