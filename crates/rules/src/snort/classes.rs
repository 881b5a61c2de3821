//! Kinds of attacks: their words and how bad they are, as the `classification.config` that both programs
//! come with has them.

use crate::refusal::Refusal;
use std::collections::HashMap;

const KNOWN: [(&str, &str, u8); 40] = [
    ("not-suspicious", "Not Suspicious Traffic", 3),
    ("unknown", "Unknown Traffic", 3),
    ("bad-unknown", "Potentially Bad Traffic", 2),
    ("attempted-recon", "Attempted Information Leak", 2),
    ("successful-recon-limited", "Information Leak", 2),
    ("successful-recon-largescale", "Large Scale Information Leak", 2),
    ("attempted-dos", "Attempted Denial of Service", 2),
    ("successful-dos", "Denial of Service", 2),
    ("attempted-user", "Attempted User Privilege Gain", 1),
    ("unsuccessful-user", "Unsuccessful User Privilege Gain", 1),
    ("successful-user", "Successful User Privilege Gain", 1),
    ("attempted-admin", "Attempted Administrator Privilege Gain", 1),
    ("successful-admin", "Successful Administrator Privilege Gain", 1),
    ("rpc-portmap-decode", "Decode of an RPC Query", 2),
    ("shellcode-detect", "Executable code was detected", 1),
    ("string-detect", "A suspicious string was detected", 3),
    ("suspicious-filename-detect", "A suspicious filename was detected", 2),
    ("suspicious-login", "An attempted login using a suspicious username was detected", 2),
    ("system-call-detect", "A system call was detected", 2),
    ("tcp-connection", "A TCP connection was detected", 4),
    ("trojan-activity", "A Network Trojan was detected", 1),
    ("unusual-client-port-connection", "A client was using an unusual port", 2),
    ("network-scan", "Detection of a Network Scan", 3),
    ("denial-of-service", "Detection of a Denial of Service Attack", 2),
    ("non-standard-protocol", "Detection of a non-standard protocol or event", 2),
    ("protocol-command-decode", "Generic Protocol Command Decode", 3),
    ("web-application-activity", "access to a potentially vulnerable web application", 2),
    ("web-application-attack", "Web Application Attack", 1),
    ("misc-activity", "Misc activity", 3),
    ("misc-attack", "Misc Attack", 2),
    ("icmp-event", "Generic ICMP event", 3),
    ("inappropriate-content", "Inappropriate Content was Detected", 1),
    ("policy-violation", "Potential Corporate Privacy Violation", 1),
    ("default-login-attempt", "Attempt to login by a default username and password", 2),
    ("targeted-activity", "Targeted Malicious Activity was Detected", 1),
    ("exploit-kit", "Exploit Kit Activity Detected", 1),
    ("domain-c2", "Domain Observed Used for C2 Detected", 1),
    ("pup-activity", "Possibly Unwanted Program Detected", 2),
    ("credential-theft", "Successful Credential Theft Detected", 1),
    ("command-and-control", "Malware Command and Control Activity Detected", 1),
];

/// Those that are known.
pub(super) struct Classes(HashMap<String, (String, u8)>);

impl Default for Classes {
    fn default() -> Self {
        let known = KNOWN
            .iter()
            .map(|(name, words, severity)| ((*name).to_owned(), ((*words).to_owned(), *severity)));
        Self(known.collect())
    }
}

impl Classes {
    /// Takes `classification: name,words,severity`.
    pub(super) fn define(&mut self, text: &str) -> Result<(), Refusal> {
        let Some(rest) = text.trim().strip_prefix("classification:") else {
            let what = format!("the setting 'config {text}' is not known here");
            return Err(Refusal::wrong(
                what,
                "take the line out; only 'config classification:' may stand here",
            ));
        };
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let read = match parts.as_slice() {
            [name, words, severity] => {
                let severity = severity.parse::<u8>().ok().filter(|one| (1..=255).contains(one));
                severity.map(|severity| ((*name).to_owned(), ((*words).to_owned(), severity)))
            }
            _ => None,
        };
        let (name, class) = read.ok_or_else(|| {
            let what = format!("the classification '{rest}' cannot be read");
            Refusal::wrong(what, "write 'config classification: name,words,severity from 1 to 255'")
        })?;
        self.0.insert(name, class);
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Result<(String, u8), Refusal> {
        self.0.get(name).cloned().ok_or_else(|| {
            let advice = format!("declare it: 'config classification: {name},what it is,2'");
            Refusal::wrong(format!("the classtype '{name}' is not known"), advice)
        })
    }
}
