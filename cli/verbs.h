// The verbs. Each takes its options (contract/questions/), asks, prints the answer, and returns the exit status.
#pragma once

#include <CLI/CLI.hpp>

#include "contract/commands.h"

namespace sonde {

int adapter(const AdapterCommand& options);
int check(const CheckCommand& options);
int compare(const CompareCommand& options);
// `app`: all verbs, whose options the script completes.
int completion(const CompletionCommand& options, const CLI::App& app);
int convert(const ConvertCommand& options);
int export_dump(const ExportCommand& options);
int first_bad(const FirstBadCommand& options);
int gather(const GatherCommand& options);
int graph(const GraphCommand& options);
int index(const IndexCommand& options);
int info(const InfoCommand& options);
int ls(const LsCommand& options);
int mcp(const McpCommand& options);
int replay(const ReplayCommand& options);
int report(const ReportCommand& options);
int repro(const ReproCommand& options);
// The status is that of the command that was run.
int run(const RunCommand& options);
int serve(const ServeCommand& options);
int show(const ShowCommand& options);
int stats(const StatsCommand& options);
int stomp(const StompCommand& options);
int headroom(const HeadroomCommand& options);
int upload(const UploadCommand& options);
int verify(const VerifyCommand& options);
int watch(const WatchCommand& options);

}  // namespace sonde
