// Package wire holds the messages of NVMe over Fabrics on RDMA: it parses, builds, sizes and names them, and does nothing else.
//
// # What is here
//
//   - The capsules: submission queue entry ([SQE]), SGL descriptor ([SGL]), completion queue entry ([CQE]) and its [Status].
//   - Views of one command, made from an SQE and turned back into one: [Connect], [PropertyGet], [PropertySet], [Identify],
//     [GetLogPage], [SetFeatures], [GetFeatures], [Abort], and the SQE methods and builders for Read, Write and their kin.
//   - The data that commands carry: [ConnectData], the Identify pages, the log pages, the feature values, [DSMRange].
//   - The properties of a controller: [CAP], [Version], [CC], [CSTS].
//   - The RDMA CM private data of a connection: [CMRequest], [CMReply], [CMReject].
//
// # Conventions
//
// A message of fixed size XSize has two methods: Parse(b) fills the receiver from b, and Append(b) adds the encoding to b and returns
// the longer slice. Parse wants exactly XSize bytes unless its comment says otherwise, and answers a [*SizeError] to any
// other length. No Parse keeps b. A value that comes out of Parse is what the peer sent: fields are decoded, not judged, so that a
// target can answer the status that the standard asks for. Counts that the standard transmits less one keep that form when the field
// has the standard's name (SQSize, NUMD); methods in plain words (Blocks, Bytes) count from one, and say so.
//
// All integers are little-endian on the wire. Field and type names are those of the NVMe Base, NVM Command Set and RDMA Transport
// specifications, as Linux's include/linux/nvme.h spells them where it differs.
//
// # Ownership and threads
//
// The package has no state. A value belongs to its holder; concurrent use of distinct values is safe. SQE, CQE and SGL are parsed and built without
// allocation, as every I/O needs them.
//
// # The way of a message
//
//  1. A receive completes; the bytes are a command or a response capsule.
//  2. SQE.Parse or CQE.Parse decodes its head; in-capsule data follows an SQE at SQESize.
//  3. The view for the opcode (ParseConnect, SQE.SLBA, ...) names the command's own fields.
//  4. Data that moved by RDMA READ or from the capsule is decoded by its type's Parse; data to be sent is built by Append.
//  5. The answer is a CQE whose Status says how it went.
package wire
