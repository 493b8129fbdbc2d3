// Package frame knows the bytes of iWARP: the MPA connection frames, the FPDU
// with its padding and CRC, and the DDP and RDMAP headers in it. It does no I/O
// and keeps no state.
//
//	MPA request, reply       RFC 5044, 7.1; RFC 6581, 5 (the IRD and ORD words)
//	FPDU                     RFC 5044, 4: length, ULPDU, pad, CRC
//	Tagged, Untagged         RFC 5041, 4: the DDP headers
//	control word, opcodes    RFC 5040, 4.1
//	ReadRequest, Terminate   RFC 5040, 4.4 and 4.8
//
// All fields are big-endian but the CRC, which is sent least significant byte
// first. Header sizes count the two bytes of the length field, so that offsets
// are those from the start of the FPDU. Append functions never allocate when the
// slice has room.
package frame
