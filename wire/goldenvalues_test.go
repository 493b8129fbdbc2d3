package wire_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/wire"
	"rbd/wire/wiretest"
)

// printed reads the "name : value" lines that nvme-cli printed for the kernel's target.
func printed(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return values
}

// last finds the last successful command that fits, which is the one that nvme-cli sent itself.
func last(t *testing.T, fits func(*wire.SQE) bool) *wiretest.Exchange {
	t.Helper()
	var found *wiretest.Exchange
	for _, e := range recordings(t)[0].exchanges {
		if e.Answered && e.Response.Status.OK() && fits(&e.Command) {
			found = e
		}
	}
	if found == nil {
		t.Fatal("no such command in the recording")
	}
	return found
}

func identifies(cns wire.CNS) func(*wire.SQE) bool {
	return func(s *wire.SQE) bool {
		return wire.AdminOpcode(s.Opcode) == wire.AdminIdentify && wire.ParseIdentify(s).CNS == cns
	}
}

func reads(lid wire.LogID) func(*wire.SQE) bool {
	return func(s *wire.SQE) bool {
		return wire.AdminOpcode(s.Opcode) == wire.AdminGetLogPage && wire.ParseGetLogPage(s).LID == lid
	}
}

// compare checks decoded fields against the printed ones. Every printed line must be named in fields or in skip, so that none is forgotten.
func compare(t *testing.T, want map[string]string, fields map[string]any, skip ...string) {
	t.Helper()
	for _, name := range skip {
		delete(want, name)
	}
	for name, value := range want {
		field, ok := fields[name]
		if !ok {
			t.Errorf("%s is printed as %q and not compared", name, value)
			continue
		}
		text := fmt.Sprint(field)
		if digits, isHex := strings.CutPrefix(value, "0x"); isHex {
			text, value = fmt.Sprintf("%x", field), digits
		}
		if text != value {
			t.Errorf("%s is %q, nvme-cli printed %q", name, text, value)
		}
	}
}

// The offsets of Identify Controller are those by which nvme-cli read the same bytes.
func TestGoldenIdentifyController(t *testing.T) {
	var c wire.IdentifyController
	if err := c.Parse(last(t, identifies(wire.CNSController)).DataIn); err != nil {
		t.Fatal(err)
	}
	compare(t, printed(t, "nvmet-idctrl.txt"), map[string]any{
		"vid": c.VID, "ssvid": c.SSVID, "sn": wire.Text(c.SN[:]), "mn": wire.Text(c.MN[:]), "fr": wire.Text(c.FR[:]), "rab": c.RAB,
		"ieee": fmt.Sprintf("%02x%02x%02x", c.IEEE[2], c.IEEE[1], c.IEEE[0]), "cmic": c.CMIC, "mdts": c.MDTS, "cntlid": c.CNTLID,
		"ver": uint32(c.VER), "rtd3r": c.RTD3R, "rtd3e": c.RTD3E, "oaes": c.OAES, "ctratt": c.CTRATT, "rrls": c.RRLS,
		"cntrltype": uint8(c.CNTRLTYPE), "fguid": c.FGUID, "crdt1": c.CRDT1, "crdt2": c.CRDT2, "crdt3": c.CRDT3, "nvmsr": c.NVMSR,
		"vwci": c.VWCI, "mec": c.MEC, "oacs": c.OACS, "acl": c.ACL, "aerl": c.AERL, "frmw": c.FRMW, "lpa": c.LPA, "elpe": c.ELPE,
		"npss": c.NPSS, "avscc": c.AVSCC, "apsta": c.APSTA, "wctemp": c.WCTEMP, "cctemp": c.CCTEMP, "mtfa": c.MTFA, "hmpre": c.HMPRE,
		"hmmin": c.HMMIN, "tnvmcap": c.TNVMCAP, "unvmcap": c.UNVMCAP, "rpmbs": c.RPMBS, "edstt": c.EDSTT, "dsto": c.DSTO, "fwug": c.FWUG,
		"kas": c.KAS, "hctma": c.HCTMA, "mntmt": c.MNTMT, "mxtmt": c.MXTMT, "sanicap": c.SANICAP, "hmminds": c.HMMINDS, "hmmaxd": c.HMMAXD,
		"nsetidmax": c.NSETIDMAX, "endgidmax": c.ENDGIDMAX, "anatt": c.ANATT, "anacap": c.ANACAP, "anagrpmax": c.ANAGRPMAX,
		"nanagrpid": c.NANAGRPID, "pels": c.PELS, "domainid": c.DomainID, "megcap": c.MEGCAP, "sqes": c.SQES, "cqes": c.CQES,
		"maxcmd": c.MAXCMD, "nn": c.NN, "oncs": c.ONCS, "fuses": c.FUSES, "fna": c.FNA, "vwc": c.VWC, "awun": c.AWUN, "awupf": c.AWUPF,
		"icsvscc": c.ICSVSCC, "nwpc": c.NWPC, "acwu": c.ACWU, "ocfs": c.OCFS, "sgls": c.SGLS, "mnan": c.MNAN, "maxdna": c.MAXDNA,
		"maxcna": c.MAXCNA, "subnqn": c.SubNQN.String(), "ioccsz": c.IOCCSZ, "iorcsz": c.IORCSZ, "icdoff": c.ICDOFF, "fcatt": c.CTRATTR,
		"msdbd": c.MSDBD, "ofcs": c.OFCS,
	}, "NVME Identify Controller", "ps      0", "rwt", "active_power_workload")
	if p := c.PSD[0]; p.MaxPower != 2500 || p.EntryLatency != 16 || p.ExitLatency != 4 {
		t.Errorf("power state 0 is %+v, want mp:25.00W enlat:16 exlat:4", p)
	}
}

// The same for Identify Namespace.
func TestGoldenIdentifyNamespace(t *testing.T) {
	var n wire.IdentifyNamespace
	if err := n.Parse(last(t, identifies(wire.CNSNamespace)).DataIn); err != nil {
		t.Fatal(err)
	}
	f := n.Format()
	compare(t, printed(t, "nvmet-idns.txt"), map[string]any{
		"nsze": n.NSZE, "ncap": n.NCAP, "nuse": n.NUSE, "nsfeat": n.NSFEAT, "nlbaf": n.NLBAF, "flbas": n.FLBAS, "mc": n.MC, "dpc": n.DPC,
		"dps": n.DPS, "nmic": n.NMIC, "rescap": n.RESCAP, "fpi": n.FPI, "dlfeat": n.DLFEAT, "nawun": n.NAWUN, "nawupf": n.NAWUPF,
		"nacwu": n.NACWU, "nabsn": n.NABSN, "nabo": n.NABO, "nabspf": n.NABSPF, "noiob": n.NOIOB, "nvmcap": n.NVMCAP, "npwg": n.NPWG,
		"npwa": n.NPWA, "npdg": n.NPDG, "npda": n.NPDA, "nows": n.NOWS, "mssrl": n.MSSRL, "mcl": n.MCL, "msrc": n.MSRC, "nulbaf": n.NULBAF,
		"anagrpid": n.ANAGRPID, "nsattr": n.NSATTR, "nvmsetid": n.NVMSETID, "endgid": n.ENDGID, "nguid": fmt.Sprintf("%x", n.NGUID[:]),
		"eui64": fmt.Sprintf("%x", n.EUI64), "lbaf  0": fmt.Sprintf("ms:%d   lbads:%d  rp:%d (in use)", f.MS, f.LBADS, f.RP),
	}, "NVME Identify Namespace 1")
	if n.BlockSize() != 512 {
		t.Errorf("block size is %d, want 512", n.BlockSize())
	}
}

// The same for the namespace's identifiers and the SMART log.
func TestGoldenDescriptorsAndSmart(t *testing.T) {
	var d wire.NSDescriptors
	if err := d.Parse(last(t, identifies(wire.CNSNamespaceDescriptors)).DataIn); err != nil {
		t.Fatal(err)
	}
	if !d.HasCSI {
		t.Error("no CSI")
	}
	compare(t, printed(t, "nvmet-nsdescs.txt"), map[string]any{"uuid": d.UUID, "csi": d.CSI}, "NVME Namespace Identification Descriptors NS 1")

	var s wire.SmartLog
	if err := s.Parse(last(t, reads(wire.LogSmart)).DataIn); err != nil {
		t.Fatal(err)
	}
	compare(t, printed(t, "nvmet-smart.txt"), map[string]any{
		"critical_warning":                         s.CriticalWarning,
		"temperature":                              fmt.Sprintf("%d°C (%d Kelvin)", int(s.Temperature)-273, s.Temperature),
		"available_spare":                          fmt.Sprintf("%d%%", s.AvailableSpare),
		"percentage_used":                          fmt.Sprintf("%d%%", s.PercentageUsed),
		"Data Units Read":                          fmt.Sprintf("%s (3.07 MB)", s.DataUnitsRead),
		"Data Units Written":                       fmt.Sprintf("%s (1.02 MB)", s.DataUnitsWritten),
		"host_read_commands":                       s.HostReads,
		"host_write_commands":                      s.HostWrites,
		"controller_busy_time":                     s.ControllerBusyTime,
		"power_cycles":                             s.PowerCycles,
		"power_on_hours":                           s.PowerOnHours,
		"unsafe_shutdowns":                         s.UnsafeShutdowns,
		"media_errors":                             s.MediaErrors,
		"num_err_log_entries":                      s.ErrorLogEntries,
		"Warning Temperature Time":                 s.WarningTemperatureTime,
		"available_spare_threshold":                fmt.Sprintf("%d%%", s.AvailableSpareThreshold),
		"endurance group critical warning summary": s.EnduranceGroupWarning,
		"Critical Composite Temperature Time":      s.CriticalTemperatureTime,
		"Thermal Management T1 Trans Count":        s.ThermalT1Transitions,
		"Thermal Management T2 Trans Count":        s.ThermalT2Transitions,
		"Thermal Management T1 Total Time":         s.ThermalT1Time,
		"Thermal Management T2 Total Time":         s.ThermalT2Time,
	}, "Smart Log for NVME device")
}

// What the recordings hold for the connect, the properties, the discovery log page and the errors, field by field.
func TestGoldenValues(t *testing.T) {
	all := recordings(t)
	admin, unknown, discover, io := all[0], all[1], all[2], all[3]
	const hostNQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"

	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %+v, want %+v", what, got, want)
		}
	}
	var request wire.CMRequest
	if err := request.Parse(io.stream.Halves[wiretest.Host].MPA.PrivateData); err != nil {
		t.Fatal(err)
	}
	check("cm request of the i/o queue", request, wire.CMRequest{QID: 1, HRQSize: 128, HSQSize: 127, CNTLID: 1})
	var reply wire.CMReply
	if err := reply.Parse(io.stream.Halves[wiretest.Target].MPA.PrivateData); err != nil {
		t.Fatal(err)
	}
	check("cm reply", reply, wire.CMReply{CRQSize: 128})

	check("connect", wire.ParseConnect(&admin.exchanges[0].Command), wire.Connect{SQSize: 31, KATO: 5000})
	check("connect result", wire.ParseConnectResult(admin.exchanges[0].Response.DW0()), wire.ConnectResult{CNTLID: 1})
	var data wire.ConnectData
	if err := data.Parse(admin.exchanges[0].DataOut); err != nil {
		t.Fatal(err)
	}
	check("host identifier", data.HostID.String(), "11111111-2222-3333-4444-555555555555")
	check("controller identifier", data.CNTLID, uint16(wire.CNTLIDDynamic))
	check("subsystem NQN", data.SubNQN.String(), "nqn.2026-11.org.example:disk1")
	check("host NQN", data.HostNQN.String(), hostNQN)

	capabilities := wire.CAP(admin.exchanges[1].Response.Result)
	check("CAP.MQES", capabilities.MQES(), uint16(127))
	check("CAP.TO", capabilities.TO(), uint8(15))
	check("CAP.CSS", capabilities.CSS(), wire.CAPCSSNVM|wire.CAPCSSIOCS)
	cc := wire.CC(wire.ParsePropertySet(&admin.exchanges[4].Command).Value)
	check("CC", cc, wire.MakeCC(wire.CCCSSAll).WithEN(true))
	check("CSTS", wire.CSTS(admin.exchanges[5].Response.Result), wire.CSTSRDY)
	check("VS", wire.Version(admin.exchanges[6].Response.Result).String(), "1.3.0")

	refusal := unknown.exchanges[0].Response
	check("refusal", refusal.Status.FabricsString(), "connect invalid parameters (0x182), do not retry")
	check("refused parameter", wire.ParseInvalidParameter(refusal.DW0()).String(), "subsystem NQN in the connect data")

	beyond := io.exchanges[len(io.exchanges)-1]
	check("read beyond the end", beyond.Command.SLBA(), uint64(99999999))
	checkDiscovery(t, check, discover)
}

func checkDiscovery(t *testing.T, check func(string, any, any), discover recording) {
	page := discover.exchanges[len(discover.exchanges)-3].DataIn
	var head wire.DiscoveryLogHeader
	if err := head.Parse(page[:wire.DiscoveryLogHeaderSize]); err != nil {
		t.Fatal(err)
	}
	check("number of records", head.NUMREC, uint64(2))
	var entry wire.DiscoveryLogEntry
	if err := entry.Parse(page[2*wire.DiscoveryLogEntrySize:]); err != nil {
		t.Fatal(err)
	}
	check("transport", entry.TRTYPE, wire.TransportRDMA)
	check("address family", entry.ADRFAM, wire.AddressIPv4)
	check("subsystem type", entry.SUBTYPE, wire.SubsystemNVM)
	check("service", wire.Text(entry.TRSVCID[:]), "4420")
	check("address", wire.Text(entry.TRADDR[:]), "10.99.0.1")
	check("subsystem NQN of the entry", entry.SUBNQN.String(), "nqn.2026-11.org.example:disk1")
	check("RDMA address", entry.TSAS, wire.RDMATransportAddress{QPTYPE: wire.QPTypeConnected, PRTYPE: wire.ProviderNotSpecified, CMS: wire.CMSRDMACM})
}
