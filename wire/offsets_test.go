package wire_test

import (
	"reflect"
	"strings"
	"testing"
)

// fieldOffsets are the byte offsets of the fields of each message, by their names in small letters, as the structures of libnvme and of the Linux kernel have them.
func fieldOffsets() map[string]map[string]int {
	return map[string]map[string]int{
		"IdentifyController": {
			"vid": 0, "ssvid": 2, "sn": 4, "mn": 24, "fr": 64, "rab": 72, "ieee": 73, "cmic": 76, "mdts": 77, "cntlid": 78, "ver": 80, "rtd3r": 84, "rtd3e": 88,
			"oaes": 92, "ctratt": 96, "rrls": 100, "cntrltype": 111, "fguid": 112, "crdt1": 128, "crdt2": 130, "crdt3": 132, "nvmsr": 253, "vwci": 254, "mec": 255,
			"oacs": 256, "acl": 258, "aerl": 259, "frmw": 260, "lpa": 261, "elpe": 262, "npss": 263, "avscc": 264, "apsta": 265, "wctemp": 266, "cctemp": 268,
			"mtfa": 270, "hmpre": 272, "hmmin": 276, "tnvmcap": 280, "unvmcap": 296, "rpmbs": 312, "edstt": 316, "dsto": 318, "fwug": 319, "kas": 320,
			"hctma": 322, "mntmt": 324, "mxtmt": 326, "sanicap": 328, "hmminds": 332, "hmmaxd": 336, "nsetidmax": 338, "endgidmax": 340, "anatt": 342,
			"anacap": 343, "anagrpmax": 344, "nanagrpid": 348, "pels": 352, "domainid": 356, "megcap": 368, "sqes": 512, "cqes": 513, "maxcmd": 514, "nn": 516,
			"oncs": 520, "fuses": 522, "fna": 524, "vwc": 525, "awun": 526, "awupf": 528, "icsvscc": 530, "nwpc": 531, "acwu": 532, "ocfs": 534, "sgls": 536,
			"mnan": 540, "maxdna": 544, "maxcna": 560, "subnqn": 768, "ioccsz": 1792, "iorcsz": 1796, "icdoff": 1800, "ctrattr": 1802, "msdbd": 1803, "ofcs": 1804,
			"dctype": 1806, "psd": 2048,
		},
		"IdentifyNamespace": {
			"nsze": 0, "ncap": 8, "nuse": 16, "nsfeat": 24, "nlbaf": 25, "flbas": 26, "mc": 27, "dpc": 28, "dps": 29, "nmic": 30, "rescap": 31, "fpi": 32,
			"dlfeat": 33, "nawun": 34, "nawupf": 36, "nacwu": 38, "nabsn": 40, "nabo": 42, "nabspf": 44, "noiob": 46, "nvmcap": 48, "npwg": 64, "npwa": 66,
			"npdg": 68, "npda": 70, "nows": 72, "mssrl": 74, "mcl": 76, "msrc": 80, "nulbaf": 82, "anagrpid": 92, "nsattr": 99, "nvmsetid": 100, "endgid": 102,
			"nguid": 104, "eui64": 120, "lbaf": 128,
		},
		"SmartLog": {
			"criticalwarning": 0, "temperature": 1, "availablespare": 3, "availablesparethreshold": 4, "percentageused": 5, "endurancegroupwarning": 6,
			"dataunitsread": 32, "dataunitswritten": 48, "hostreads": 64, "hostwrites": 80, "controllerbusytime": 96, "powercycles": 112, "poweronhours": 128,
			"unsafeshutdowns": 144, "mediaerrors": 160, "errorlogentries": 176, "warningtemperaturetime": 192, "criticaltemperaturetime": 196,
			"temperaturesensors": 200, "thermalt1transitions": 216, "thermalt2transitions": 220, "thermalt1time": 224, "thermalt2time": 228,
		},
		"ErrorLogEntry": {
			"errorcount": 0, "sqid": 8, "cid": 10, "statusfield": 12, "errorlocation": 14, "lba": 16, "nsid": 24, "vendorinfo": 28, "trtype": 29, "csi": 30,
			"opcode": 31, "commandinfo": 32, "transportinfo": 40, "logversion": 63,
		},
		"FirmwareSlotLog": {
			"afi": 0, "frs": 8,
		},
		"CommandEffectsLog": {
			"admin": 0, "io": 1024,
		},
		"DiscoveryLogEntry": {
			"trtype": 0, "adrfam": 1, "subtype": 2, "treq": 3, "portid": 4, "cntlid": 6, "asqsz": 8, "eflags": 10, "trsvcid": 32, "subnqn": 256, "traddr": 512,
			"tsas": 768,
		},
		"DiscoveryLogHeader": {
			"genctr": 0, "numrec": 8, "recfmt": 16,
		},
		"IdentifyNVMController": {
			"vsl": 0, "wzsl": 1, "wusl": 2, "dmrl": 3, "dmrsl": 4, "dmsl": 8,
		},
		"IdentifyIndependentNamespace": {
			"nsfeat": 0, "nmic": 1, "rescap": 2, "fpi": 3, "anagrpid": 4, "nsattr": 8, "nvmsetid": 10, "endgid": 12, "nstat": 14,
		},
		"ConnectData": {
			"hostid": 0, "cntlid": 16, "subnqn": 256, "hostnqn": 512,
		},
		"DSMRange": {
			"contextattributes": 0, "blocks": 4, "slba": 8,
		},
		"HostBehavior": {
			"acre": 0, "etdas": 1, "lbafee": 2, "hdisns": 3, "cdfe": 4,
		},
		"CMRequest": {"recfmt": 0, "qid": 2, "hrqsize": 4, "hsqsize": 6, "cntlid": 8, "reserved": 10},
		"CMReply":   {"recfmt": 0, "crqsize": 2, "reserved": 4},
		"CMReject":  {"recfmt": 0, "reason": 2},
	}
}

// Every field must be at its offset, take as many bytes as its type has, and share none of them with another field. The recordings
// can't tell, as most fields are zero there.
func TestFieldOffsets(t *testing.T) {
	for name, offsets := range fieldOffsets() {
		m := kinds()[name]()
		v := reflect.ValueOf(m).Elem()
		taken := make([]string, size(m))
		if v.NumField() != len(offsets) {
			t.Errorf("%s has %d fields, %d have an offset", name, v.NumField(), len(offsets))
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			want, ok := offsets[strings.ToLower(field.Name)]
			if !ok {
				t.Errorf("%s.%s has no offset", name, field.Name)
				continue
			}
			fill(v.Field(i))
			first, last := span(m.Append(nil))
			v.Field(i).SetZero()
			if first != want {
				t.Errorf("%s.%s is at %d, want %d", name, field.Name, first, want)
			}
			for at := first; at <= last; at++ {
				if taken[at] != "" {
					t.Errorf("%s: byte %d is of %s and of %s", name, at, taken[at], field.Name)
				}
				taken[at] = field.Name
			}
			if got := last - first + 1; !hasStructs(field.Type) && got != int(field.Type.Size()) {
				t.Errorf("%s.%s takes %d bytes, want %d", name, field.Name, got, field.Type.Size())
			}
		}
	}
}

// hasStructs says that a field has structures in it, which may be longer in memory than on the wire.
func hasStructs(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Array && hasStructs(t.Elem())
}

// fill sets every bit of a field.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	default:
		v.SetUint(1<<64 - 1)
	}
}

// span is the first and the last byte of b that is not zero.
func span(b []byte) (first, last int) {
	first = -1
	for i, c := range b {
		if c != 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}
