//! One query and its parsed reply
//! ([RFC 1035, section 4](https://www.rfc-editor.org/rfc/rfc1035#section-4)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use simple_dns::{
    CLASS, Name as WireName, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, rdata::RData,
};

use super::{Name, Outcome, RecordType};

/// Limit of aliases that are followed.
const MAX_ALIASES: usize = 16;

/// A query for the records of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub id: u16,
    pub name: Name,
    pub record: RecordType,
}

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub addresses: Vec<IpAddr>,
    /// The canonical name, if the queried name is an alias.
    pub alias_of: Option<String>,
    /// The reply did not fit into a datagram.
    pub is_truncated: bool,
}

/// The bytes are not a reply to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the reply is not a DNS message")]
    Message,
    #[error("the message is no reply to this query")]
    OtherQuery,
}

impl Query {
    /// The bytes of the query, which requests recursion.
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = Packet::new_query(self.id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = WireName::new_unchecked(self.name.relative());
        packet.questions.push(Question::new(
            name,
            QTYPE::TYPE(self.wire_type()),
            QCLASS::CLASS(CLASS::IN),
            false,
        ));
        // Fails only for a name with a label that is too long, which no `Name` has.
        packet.build_bytes_vec().unwrap_or_default()
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// [`Malformed::OtherQuery`] for a message that was not sent in reply to this query.
    pub fn answer(&self, bytes: &[u8]) -> Result<Answer, Malformed> {
        let packet = Packet::parse(bytes).map_err(|_defect| Malformed::Message)?;
        let name = WireName::new_unchecked(self.name.relative());
        let is_ours = match &packet.questions[..] {
            [question] => {
                is_same(&question.qname, &name)
                    && question.qtype == QTYPE::TYPE(self.wire_type())
                    && question.qclass == QCLASS::CLASS(CLASS::IN)
            }
            _ => false,
        };
        if packet.id() != self.id || !packet.has_flags(PacketFlag::RESPONSE) || !is_ours {
            return Err(Malformed::OtherQuery);
        }
        let (addresses, alias_of) = self.records(&packet, name);
        let outcome = match packet.rcode() {
            RCODE::NoError if addresses.is_empty() => Outcome::NoAddresses,
            RCODE::NoError => Outcome::Addresses,
            RCODE::NameError => Outcome::NoSuchName,
            RCODE::ServerFailure => Outcome::ServerFailure,
            RCODE::Refused => Outcome::QueryRefused,
            _ => Outcome::OtherError,
        };
        Ok(Answer {
            outcome,
            addresses,
            alias_of,
            is_truncated: packet.has_flags(PacketFlag::TRUNCATION),
        })
    }

    /// Follows aliases, and returns the addresses and the canonical name.
    fn records(&self, packet: &Packet<'_>, name: WireName<'_>) -> (Vec<IpAddr>, Option<String>) {
        let mut owner = name.into_owned();
        let mut alias_of = None;
        for _alias in 0..MAX_ALIASES {
            let next = packet
                .answers
                .iter()
                .find_map(|record| match &record.rdata {
                    RData::CNAME(target) if is_same(&record.name, &owner) => Some(target.0.clone()),
                    _ => None,
                });
            let Some(next) = next else { break };
            alias_of = Some(next.to_string());
            owner = next.into_owned();
        }
        let own = packet
            .answers
            .iter()
            .filter(|record| is_same(&record.name, &owner));
        let addresses = own.filter_map(|record| match (&record.rdata, self.record) {
            (RData::A(it), RecordType::A) => Some(Ipv4Addr::from(it.address).into()),
            (RData::AAAA(it), RecordType::Aaaa) => Some(Ipv6Addr::from(it.address).into()),
            _ => None,
        });
        (addresses.collect(), alias_of)
    }

    fn wire_type(&self) -> TYPE {
        match self.record {
            RecordType::A => TYPE::A,
            RecordType::Aaaa => TYPE::AAAA,
        }
    }
}

/// DNS names are case-insensitive; a server may reply with the spelling of its zone.
fn is_same(one: &WireName<'_>, other: &WireName<'_>) -> bool {
    one.to_string().eq_ignore_ascii_case(&other.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn query(record: RecordType) -> Query {
        Query {
            id: 0x1234,
            name: "db.shop.".parse().unwrap(),
            record,
        }
    }

    /// A reply with these flags, number of answers, and bytes after the question.
    fn reply(record: RecordType, flags: u16, answers: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = query(record).encode();
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[7] = answers;
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn query_is_encoded() {
        let expected =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02db\x04shop\x00\x00\x1c\x00\x01";
        assert_eq!(query(RecordType::Aaaa).encode(), expected);
    }

    #[test]
    fn addresses_follow_aliases() {
        let rest = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x05\x02pg\xc0\x0f\
                     \xc0\x25\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x0a\x01\x02\x03";
        let answer = query(RecordType::A)
            .answer(&reply(RecordType::A, 0x8180, 2, rest))
            .unwrap();
        assert_eq!(answer.outcome, Outcome::Addresses);
        assert_eq!(answer.addresses, [IpAddr::from([10, 1, 2, 3])]);
        assert_eq!(answer.alias_of.as_deref(), Some("pg.shop"));
        assert!(!answer.is_truncated);
    }

    #[test]
    fn reply_codes() {
        for (flags, outcome) in [
            (0x8180, Outcome::NoAddresses),
            (0x8183, Outcome::NoSuchName),
            (0x8182, Outcome::ServerFailure),
            (0x8185, Outcome::QueryRefused),
            (0x8184, Outcome::OtherError),
        ] {
            let answer = query(RecordType::A).answer(&reply(RecordType::A, flags, 0, b""));
            assert_eq!(answer.unwrap().outcome, outcome);
        }
        let cut = query(RecordType::A).answer(&reply(RecordType::A, 0x8380, 0, b""));
        assert!(cut.unwrap().is_truncated);
    }

    #[test]
    fn other_messages_are_rejected() {
        let of = |bytes: &[u8]| query(RecordType::A).answer(bytes).unwrap_err();
        assert_eq!(of(b"HTTP/1.1"), Malformed::Message);
        assert_eq!(of(&query(RecordType::A).encode()), Malformed::OtherQuery);
        let other_type = reply(RecordType::Aaaa, 0x8180, 0, b"");
        assert_eq!(of(&other_type), Malformed::OtherQuery);
        let mut other_id = reply(RecordType::A, 0x8180, 0, b"");
        other_id[0] = 0;
        assert_eq!(of(&other_id), Malformed::OtherQuery);
    }

    #[test]
    fn circle_of_aliases_ends() {
        let rest = b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x02\xc0\x0c";
        let answer = query(RecordType::A).answer(&reply(RecordType::A, 0x8180, 1, rest));
        assert_eq!(answer.unwrap().outcome, Outcome::NoAddresses);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(rest: Vec<u8>, answers: u8) {
            let query = query(RecordType::A);
            drop(query.answer(&reply(RecordType::A, 0x8180, answers, &rest)));
            drop(query.answer(&rest));
        }
    }
}
