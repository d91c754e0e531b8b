// Texts of python/sonde/programs, for interpreters that may not have Sonde.
#pragma once

namespace sonde {

extern const char* const kExportDump;     // export_dump.py
extern const char* const kConvertFormat;  // convert_format.py
extern const char* const kAlerts;         // alerts.py
extern const char* const kMcpServer;      // mcp_server.py
extern const char* const kMovedDump;      // moved_dump.py
extern const char* const kRecordedOp;     // recorded_op.py
extern const char* const kRemoteDump;     // remote_dump.py
extern const char* const kRankEngine;     // rank_engine.py

}  // namespace sonde
