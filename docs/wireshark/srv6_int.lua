-- Telemetry of Catena in Wireshark: records in segment routing headers, and telemetry reports.
--
-- Knows the bits that docs/internals/srv6.md draws. Refuses to know the rest of these packets, which Wireshark reads
-- itself. How to load it: docs/book/src/operating/wireshark.md.

local srv6_int = Proto("srv6_int", "Telemetry in segment routing")
local int_report = Proto("int_report", "Telemetry Report 2.0")

local MAP = { { 0x10, "device" }, { 0x08, "arrival" }, { 0x04, "latency" }, { 0x02, "queue" }, { 0x01, "counter" } }
local UNIT_NS = 128

local function bit(name, text, width, mask)
    return ProtoField.bool(name, text, width, nil, mask)
end

local f = {
    version = ProtoField.uint16("srv6_int.version", "Version", base.DEC, nil, 0xf000),
    functions = bit("srv6_int.functions", "S: through functions", 16, 0x0800),
    pending = bit("srv6_int.pending", "P: in a function", 16, 0x0400),
    incomplete = bit("srv6_int.incomplete", "E: a record is missing", 16, 0x0200),
    mirrored = bit("srv6_int.mirrored", "M: to be mirrored at the end", 16, 0x0100),
    colour = ProtoField.uint16("srv6_int.colour", "Colour", base.DEC, nil, 0x00ff),
    tail = ProtoField.string("srv6_int.tail", "Tail"),
    map = ProtoField.uint16("srv6_int.map", "MapInfo", base.HEX),
    sample = bit("srv6_int.result.valid", "V: there is a detection result", 32, 0x80000000),
    sample_function = ProtoField.uint32("srv6_int.result.function", "Function", base.DEC, nil, 0x7f000000),
    sample_ns = ProtoField.uint32("srv6_int.result.latency_ns", "Latency of it, ns"),
    record = ProtoField.bytes("srv6_int.record", "Record"),
    entry = ProtoField.uint8("srv6_int.record.entry", "Entry of the list"),
    valid = ProtoField.uint32("srv6_int.record.valid", "Valid fields", base.HEX, nil, 0x0f800000),
    saturated = bit("srv6_int.record.saturated", "O: the latency is longer", 32, 0x00400000),
    of_function = bit("srv6_int.record.of_function", "F: of a visit to functions", 32, 0x00200000),
    synchronised = bit("srv6_int.record.synchronised", "T: the clock is synchronised", 32, 0x00100000),
    device = ProtoField.uint16("srv6_int.record.device", "Device"),
    arrival_ns = ProtoField.uint64("srv6_int.record.arrival_ns", "Arrival, ns modulo 2^40"),
    latency_ns = ProtoField.uint32("srv6_int.record.latency_ns", "Latency of functions, ns"),
    queue = ProtoField.uint8("srv6_int.record.queue", "Queue", base.DEC, nil, 0x0f),
    queue_length = ProtoField.uint16("srv6_int.record.queue_length", "Queue length, packets", base.DEC, nil, 0xfff0),
    counter = ProtoField.uint32("srv6_int.record.counter", "Packets of the flow, modulo 2^20", base.DEC, nil, 0xfffff),
    silent = ProtoField.ipv6("srv6_int.silent", "Visited without a record"),
}
for _, field in ipairs(MAP) do
    f["map_" .. field[2]] = bit("srv6_int.map." .. field[2], field[2], 16, field[1])
end
srv6_int.fields = f

local unknown =
    ProtoExpert.new("srv6_int.unknown", "Telemetry of another form", expert.group.MALFORMED, expert.severity.WARN)
srv6_int.experts = { unknown }

local routing_type = Field.new("ipv6.routing.type")

-- MapInfo with the detection result behind it, and which tail that is.
local function tail_of(header, start)
    local at = start
    local is_paper = header:len() == start + 8 and header(start, 2):uint() == 0x7c02
    if is_paper then
        return header(start + 2, 6), "paper"
    end
    while at < header:len() do
        local kind = header(at, 1):uint()
        if kind == 0 then
            at = at + 1
        else
            local length = at + 1 < header:len() and header(at + 1, 1):uint()
            if not length or at + 2 + length > header:len() then
                return nil
            end
            if kind == 252 and length == 6 then
                return header(at + 2, 6), "tlv"
            end
            at = at + 2 + length
        end
    end
end

local function show_record(entry, index, tree)
    local branch = tree:add(f.record, entry)
    local word = entry(0, 4)
    local valid = word:bitfield(4, 5)
    branch:add(f.entry, entry, index):set_generated()
    for _, field in ipairs({ f.valid, f.saturated, f.of_function, f.synchronised }) do
        branch:add(field, word)
    end
    local function has(map)
        return math.floor(valid / map) % 2 == 1
    end
    if has(0x10) then
        branch:add(f.device, entry(2, 2))
    end
    if has(0x08) then
        branch:add(f.arrival_ns, entry(4, 5), entry(4, 5):uint64())
    end
    if has(0x04) then
        branch:add(f.latency_ns, entry(9, 3), entry(9, 3):uint() * UNIT_NS)
    end
    if has(0x02) then
        branch:add(f.queue, entry(1, 1))
        branch:add(f.queue_length, entry(12, 2))
    end
    if has(0x01) then
        branch:add(f.counter, entry(12, 4))
    end
end

local function show_tail(words, kind, tree)
    local map, result = words(0, 2), words(2, 4)
    tree:add(f.tail, words, kind):set_generated()
    local branch = tree:add(f.map, map)
    for _, field in ipairs(MAP) do
        branch:add(f["map_" .. field[2]], map)
    end
    tree:add(f.sample, result)
    if result:bitfield(0, 1) == 1 then
        tree:add(f.sample_function, result)
        tree:add(f.sample_ns, result, result(1, 3):uint() * UNIT_NS)
    end
end

-- A segment routing header whose flag I is set.
local function show_header(header, root)
    local segments_left, last_entry = header(3, 1):uint(), header(4, 1):uint()
    local list_end = 8 + 16 * (last_entry + 1)
    local tree = root:add(srv6_int, header)
    local tag = header(6, 2)
    tree:add(f.version, tag)
    if tag:bitfield(0, 4) ~= 1 or list_end > header:len() then
        tree:add_proto_expert_info(unknown)
        return
    end
    for _, field in ipairs({ f.functions, f.pending, f.incomplete, f.mirrored, f.colour }) do
        tree:add(field, tag)
    end
    local words, kind = tail_of(header, list_end)
    if words then
        show_tail(words, kind, tree)
    else
        tree:add_proto_expert_info(unknown)
    end
    for index = last_entry, 0, -1 do
        local entry = header(8 + 16 * index, 16)
        local is_record = entry:bitfield(0, 4) == 1
        if is_record and (index > segments_left or index == 0) then
            show_record(entry, index, tree)
        elseif index > segments_left then
            tree:add(f.silent, entry)
        end
    end
end

function srv6_int.dissector(_, _, root)
    for _, found in ipairs({ routing_type() }) do
        local tvb, start = found.source, found.offset - 2
        if found.value == 4 and tvb and start + 8 <= tvb:len() then
            local length = 8 + 8 * tvb(start + 1, 1):uint()
            local is_ours = tvb(start + 5, 1):bitfield(7, 1) == 1
            if is_ours and start + length <= tvb:len() then
                show_header(tvb(start, length):tvb(), root)
            end
        end
    end
end

register_postdissector(srv6_int)

local DOMAIN = 0x5352
local TYPES = { [0] = "Inner Only", [1] = "INT", [2] = "IOAM" }
local INNER = { [0] = "none", [1] = "TLV", [2] = "domain's own", [3] = "Ethernet", [4] = "IPv4", [5] = "IPv6" }
local DISSECTORS = { [3] = "eth_withoutfcs", [4] = "ip", [5] = "ipv6" }

local r = {
    version = ProtoField.uint32("int_report.version", "Version", base.DEC, nil, 0xf0000000),
    hardware = ProtoField.uint32("int_report.hardware", "Hardware", base.DEC, nil, 0x0fc00000),
    sequence = ProtoField.uint32("int_report.sequence", "Sequence", base.DEC, nil, 0x003fffff),
    node = ProtoField.uint32("int_report.node", "Node"),
    kind = ProtoField.uint8("int_report.type", "Type", base.DEC, TYPES, 0xf0),
    inner = ProtoField.uint8("int_report.inner_type", "Contents", base.DEC, INNER, 0x0f),
    length = ProtoField.uint8("int_report.length", "Length, words (255: to the end)"),
    metadata_length = ProtoField.uint8("int_report.metadata_length", "Length of metadata, words"),
    dropped = bit("int_report.dropped", "D: the packet was dropped", 8, 0x80),
    congested = bit("int_report.congested", "Q: the queue was longer than its mark", 8, 0x40),
    watched = bit("int_report.watched", "F: of a watched flow", 8, 0x20),
    intermediate = bit("int_report.intermediate", "I: of a node between", 8, 0x10),
    bits = ProtoField.uint16("int_report.metadata_bits", "Metadata", base.HEX),
    domain = ProtoField.uint16("int_report.domain", "Domain", base.HEX),
    domain_bits = ProtoField.uint16("int_report.domain_bits", "Metadata of the domain", base.HEX),
    domain_status = ProtoField.uint16("int_report.domain_status", "Status of the domain's metadata", base.HEX),
    interfaces = ProtoField.bytes("int_report.interfaces", "Interfaces of level 1"),
    latency_ns = ProtoField.uint32("int_report.latency_ns", "Latency, ns"),
    queue = ProtoField.uint8("int_report.queue", "Queue"),
    occupancy = ProtoField.uint24("int_report.queue_occupancy", "How full the queue was"),
    arrival_ns = ProtoField.uint64("int_report.arrival_ns", "Arrival, ns"),
    departure_ns = ProtoField.uint64("int_report.departure_ns", "Departure, ns"),
    interfaces_2 = ProtoField.bytes("int_report.interfaces_2", "Interfaces of level 2"),
    utilisation = ProtoField.uint32("int_report.utilisation", "Utilisation of the exit"),
    buffer = ProtoField.bytes("int_report.buffer", "Buffer"),
    drop = ProtoField.bytes("int_report.drop", "Queue and reason of a drop"),
    counter = ProtoField.uint32("int_report.counter", "Packets of the flow"),
    other = ProtoField.bytes("int_report.other", "Metadata of another domain"),
}
int_report.fields = r

local cut =
    ProtoExpert.new("int_report.cut", "The report ends before its length", expert.group.MALFORMED, expert.severity.ERROR)
int_report.experts = { cut }

-- Metadata by the number of their bit, 0 being the highest: fields, and bytes of all of them.
local METADATA = {
    [1] = { 4, { r.interfaces, 0, 4 } },
    [2] = { 4, { r.latency_ns, 0, 4 } },
    [3] = { 4, { r.queue, 0, 1 }, { r.occupancy, 1, 3 } },
    [4] = { 8, { r.arrival_ns, 0, 8 } },
    [5] = { 8, { r.departure_ns, 0, 8 } },
    [6] = { 8, { r.interfaces_2, 0, 8 } },
    [7] = { 4, { r.utilisation, 0, 4 } },
    [8] = { 4, { r.buffer, 0, 4 } },
    [15] = { 4, { r.drop, 0, 4 } },
}

-- Answers what of the metadata it could not read.
local function show_metadata(metadata, bits, tree)
    local at = 0
    for number = 0, 15 do
        local known = METADATA[number]
        if bits:bitfield(number, 1) == 1 then
            if not known or at + known[1] > metadata:len() then
                break
            end
            for index = 2, #known do
                local field, from, length = table.unpack(known[index])
                tree:add(field, metadata(at + from, length))
            end
            at = at + known[1]
        end
    end
    return at
end

local function show_int(report, tree)
    local bits, domain, domain_bits = report(4, 2), report(6, 2), report(8, 2)
    local bytes = 4 * report(2, 1):uint()
    tree:add(r.bits, bits)
    tree:add(r.domain, domain)
    tree:add(r.domain_bits, domain_bits)
    tree:add(r.domain_status, report(10, 2))
    if 12 + bytes > report:len() then
        tree:add_proto_expert_info(cut)
        return report:len()
    end
    if bytes > 0 then
        local metadata = report(12, bytes):tvb()
        local at = show_metadata(metadata, bits, tree)
        if domain:uint() == DOMAIN and domain_bits:bitfield(0, 1) == 1 and at + 4 <= bytes then
            tree:add(r.counter, metadata(at, 4))
            at = at + 4
        end
        if at < bytes then
            tree:add(r.other, metadata(at))
        end
    end
    return 12 + bytes
end

-- Answers the bytes of the report at the front.
local function show_report(rest, pinfo, root)
    local length = 4 * rest(1, 1):uint() + 4
    if rest(1, 1):uint() == 0xff then
        length = rest:len()
    end
    local tree = root:add(int_report, rest(0, math.min(length, rest:len())), "Report")
    for _, field in ipairs({ { r.kind, 0 }, { r.inner, 0 }, { r.length, 1 }, { r.metadata_length, 2 } }) do
        tree:add(field[1], rest(field[2], 1))
    end
    for _, field in ipairs({ r.dropped, r.congested, r.watched, r.intermediate }) do
        tree:add(field, rest(3, 1))
    end
    local is_int = rest(0, 1):bitfield(0, 4) == 1
    if length > rest:len() or is_int and length < 12 then
        tree:add_proto_expert_info(cut)
        return rest:len()
    end
    local report = rest(0, length):tvb()
    local inside = is_int and show_int(report, tree) or 4
    local dissector = DISSECTORS[rest(0, 1):bitfield(4, 4)]
    if dissector and inside < length then
        -- The packet is cut short, and whoever comes to its end says so: that is no error of the report.
        pcall(Dissector.call, Dissector.get(dissector), report(inside):tvb(), pinfo, root)
    end
    return length
end

function int_report.dissector(tvb, pinfo, root)
    if tvb:len() < 8 or tvb(0, 1):bitfield(0, 4) ~= 2 then
        return 0
    end
    local tree = root:add(int_report, tvb(0, 8))
    for _, field in ipairs({ r.version, r.hardware, r.sequence }) do
        tree:add(field, tvb(0, 4))
    end
    tree:add(r.node, tvb(4, 4))
    local at = 8
    while at + 4 <= tvb:len() do
        at = at + show_report(tvb(at):tvb(), pinfo, root)
    end
    pinfo.cols.protocol = "INT report"
    return tvb:len()
end

-- Operators choose the port, so there is none until one is said.
int_report.prefs.port = Pref.uint("UDP port", 0, "Where reports go; 0: nowhere")
local port = 0
function int_report.prefs_changed()
    local table_of_ports = DissectorTable.get("udp.port")
    if port ~= 0 then
        table_of_ports:remove(port, int_report)
    end
    port = int_report.prefs.port
    if port ~= 0 then
        table_of_ports:add(port, int_report)
    end
end
DissectorTable.get("udp.port"):add_for_decode_as(int_report)
