package nbd

// Names and values as in doc/proto.md of the NBD project.

// Magic numbers.
const (
	nbdMagic             = 0x4e42444d41474943 // "NBDMAGIC"
	optMagic             = 0x49484156454F5054 // "IHAVEOPT"
	optReplyMagic        = 0x3e889045565a9
	requestMagic         = 0x25609513
	extendedRequestMagic = 0x21e41c71
	simpleReplyMagic     = 0x67446698
	structuredReplyMagic = 0x668e33ef
	extendedReplyMagic   = 0x6e8a278c
)

// Handshake flags of the server, and the client's answer with the same bits.
const (
	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1
)

// Transmission flags.
const (
	flagHasFlags           = 1 << 0
	flagReadOnly           = 1 << 1
	flagSendFlush          = 1 << 2
	flagSendFUA            = 1 << 3
	flagRotational         = 1 << 4
	flagSendTrim           = 1 << 5
	flagSendWriteZeroes    = 1 << 6
	flagSendDF             = 1 << 7
	flagCanMultiConn       = 1 << 8
	flagSendCache          = 1 << 10
	flagSendFastZero       = 1 << 11
	flagBlockStatusPayload = 1 << 12
)

// Options.
const (
	optExportName      = 1
	optAbort           = 2
	optList            = 3
	optStartTLS        = 5
	optInfo            = 6
	optGo              = 7
	optStructuredReply = 8
	optListMetaContext = 9
	optSetMetaContext  = 10
	optExtendedHeaders = 11
)

// Option replies.
const (
	repAck         = 1
	repServer      = 2
	repInfo        = 3
	repMetaContext = 4

	repErrUnsup        = 1<<31 + 1
	repErrInvalid      = 1<<31 + 3
	repErrPlatform     = 1<<31 + 4
	repErrUnknown      = 1<<31 + 6
	repErrTooBig       = 1<<31 + 9
	repErrExtHeaderReq = 1<<31 + 10
)

// Information types of NBD_OPT_INFO and NBD_OPT_GO.
const (
	infoExport      = 0
	infoName        = 1
	infoDescription = 2
	infoBlockSize   = 3
)

// Commands.
const (
	cmdRead        = 0
	cmdWrite       = 1
	cmdDisc        = 2
	cmdFlush       = 3
	cmdTrim        = 4
	cmdCache       = 5
	cmdWriteZeroes = 6
	cmdBlockStatus = 7
)

// Command flags.
const (
	cmdFlagFUA        = 1 << 0
	cmdFlagNoHole     = 1 << 1
	cmdFlagDF         = 1 << 2
	cmdFlagReqOne     = 1 << 3
	cmdFlagFastZero   = 1 << 4
	cmdFlagPayloadLen = 1 << 5
)

// Chunk types and the one chunk flag of structured and extended replies.
const (
	replyFlagDone = 1 << 0

	replyTypeNone           = 0
	replyTypeOffsetData     = 1
	replyTypeBlockStatus    = 5
	replyTypeBlockStatusExt = 6
	replyTypeError          = 1<<15 + 1
)

// Sizes of messages in bytes.
const (
	greetingSize        = 18
	optionHeaderSize    = 16
	requestSize         = 28
	extendedRequestSize = 32
	simpleReplySize     = 16
	structuredReplySize = 20
	extendedReplySize   = 32
)

const (
	// maxString is the limit of the protocol for names and descriptions.
	maxString = 4096
	// maxPayload is the largest READ or WRITE, the limit that a server should
	// support without negotiation, and the one announced.
	maxPayload = 32 << 20
	// maxDrain is the longest payload of a refused WRITE that is read and
	// dropped to stay in step.
	maxDrain = 64 << 20
	// dfMinimum is the READ length that must not be refused for its
	// NBD_CMD_FLAG_DF.
	dfMinimum = 64 << 10
)

const (
	// contextAllocation is the one metadata context that is offered.
	contextAllocation = "base:allocation"
	// contextAllocationID is its number in replies.
	contextAllocationID = 1
)

// replyMode is the form of replies that was negotiated.
type replyMode uint8

const (
	modeSimple     replyMode = iota // compact requests, simple replies
	modeStructured                  // compact requests, structured replies
	modeExtended                    // extended requests and replies
)

func (m replyMode) String() string {
	return [...]string{"simple", "structured", "extended"}[m]
}
